package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/log/state"
)

// getSettings lists the settings of topics, from the table that validates them.
func (a *API) getSettings(w http.ResponseWriter, _ *http.Request, _ *caller) error {
	var all api.Settings
	for _, d := range state.SettingTable() {
		all.Settings = append(all.Settings, api.Setting{
			Name: d.Name, Default: d.Default, DefaultCompacted: d.DefaultCompacted, Choices: d.Choices, Unit: d.Unit,
			Min: d.Min, Max: d.Max, Unlimited: d.Unlimited, Meaning: d.Meaning,
		})
	}
	return a.writeJSON(w, http.StatusOK, all)
}
