package httpapi

import (
	"net/http"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/problem"
)

// peerPath is the path of links between brokers. It answers under every name of the broker, because
// others dial the address that it registered, and a web page cannot ask for the upgrade.
const peerPath = "/peer/link"

// getPeerLink gives the connection to the links of this broker, which authenticate the other one.
func (a *API) getPeerLink(w http.ResponseWriter, r *http.Request, _ *caller) error {
	if a.o.PeerLink == nil {
		return problem.New(api.NotFound, "this broker has no links to other brokers")
	}
	return a.o.PeerLink(w, r)
}
