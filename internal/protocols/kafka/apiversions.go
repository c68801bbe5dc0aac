package kafka

import (
	"cmp"
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/internal/protocols/kafka/wire"
)

// ApiVersions (18), v0 to v5: the served keys and versions, and the feature transaction.version, without which
// clients stay on version 1. It is equal on all brokers of a bucket, because it follows the format level. The
// answer to an unknown version is v0, with UNSUPPORTED_VERSION and the served versions (KIP-511).
//
// A client may name the cluster and the broker that it wants to reach (v5, KIP-1242), both or neither. At another one
// it gets REBOOTSTRAP_REQUIRED, and begins again with the addresses of its configuration.
var _ = register(api{
	key: kmsg.ApiVersions, min: 0, max: 5, unauthenticated: true,
	shape: wire.Shape{Flexible: 3, Fields: []wire.Field{wire.Text.Since(3), wire.Text.Since(3), wire.Text.Since(5), wire.Int32.Since(5)}},
	begin: serving((*call).apiVersions),
})

func (c *call) apiVersions(_ context.Context, r *kmsg.ApiVersionsRequest) (*kmsg.ApiVersionsResponse, error) {
	resp := kmsg.NewPtrApiVersionsResponse()
	switch {
	case (r.ClusterID == nil) != (r.NodeID == -1):
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	case r.ClusterID != nil && (*r.ClusterID != c.b.Cluster().String() || r.NodeID != c.nodeID()):
		resp.ErrorCode = kerr.RebootstrapRequired.Code
		return resp, nil
	}
	resp.ApiKeys = c.versions()
	if level := c.b.Level().Now; level >= state.LevelTransactions {
		const name, newest = "transaction.version", 2
		supported, final := kmsg.NewApiVersionsResponseSupportedFeature(), kmsg.NewApiVersionsResponseFinalizedFeature()
		supported.Name, supported.MaxVersion = name, newest
		final.Name, final.MinVersionLevel, final.MaxVersionLevel = name, newest, newest
		resp.SupportedFeatures, resp.FinalizedFeatures = append(resp.SupportedFeatures, supported), append(resp.FinalizedFeatures, final)
		resp.FinalizedFeaturesEpoch = int64(level) // clients heed a higher one
	}
	return resp, nil
}

// unknownVersion answers an unknown version of ApiVersions, which only a newer client sends.
func (c *call) unknownVersion() (framed.Finish, error) {
	return func(context.Context) (framed.Answer, error) {
		resp := kmsg.NewPtrApiVersionsResponse()
		resp.ErrorCode, resp.ApiKeys = kerr.UnsupportedVersion.Code, c.versions()
		c.version = 0
		return c.answer(resp, resp.AppendTo), nil
	}, nil
}

func (s *Server) versions() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, 0, len(s.apis))
	for _, a := range s.apis {
		if a.brokers {
			continue
		}
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key.Int16(), a.min, a.max
		keys = append(keys, k)
	}
	sorting.Sort(keys, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) })
	return keys
}
