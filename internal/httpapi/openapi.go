package httpapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/api"
)

//go:embed openapi.yaml
var specYAML []byte

// specJSON is openapi.yaml as JSON. It is built on first use, because that takes a fifth of a
// broker's start.
var specJSON = sync.OnceValues(func() ([]byte, error) {
	var spec map[string]any
	if err := yaml.Unmarshal(specYAML, &spec); err != nil {
		return nil, err
	}
	return json.Marshal(spec)
})

// getSpec answers with the description of this API.
func (a *API) getSpec(w http.ResponseWriter, _ *http.Request) error {
	spec, err := specJSON()
	if err != nil {
		return fmt.Errorf("read openapi.yaml: %w", err)
	}
	w.Header().Set("Content-Type", api.JSON)
	a.write(w, http.StatusOK, spec)
	return nil
}
