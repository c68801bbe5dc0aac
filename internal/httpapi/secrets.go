package httpapi

import (
	"context"
	"maps"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/trigger"
)

// Secrets answers GET /secrets.
func (t *Triggers) Secrets(c *triggerCall) (*api.Secrets, error) {
	s, err := c.SecretsState()
	if err != nil {
		return nil, triggerFault(err)
	}
	active := c.Keys().Active().String()
	out := api.Secrets{Keys: []string{}, Readable: s.Readable, Encrypted: map[string]int{}, Blocked: s.Locked, Triggers: []string{}}
	maps.Copy(out.Encrypted, s.Keys)
	for _, id := range s.Names {
		if c.by.Allow(access.Read, access.Trigger, id) {
			out.Triggers = append(out.Triggers, id)
		}
	}
	for i, id := range c.Keys().IDs() {
		if i == 0 {
			out.Key = active
		} else {
			out.Left += s.Keys[id.String()]
		}
		out.Keys = append(out.Keys, id.String())
	}
	return &out, nil
}

// Rewrap answers POST /secrets/rewrap, which gives some triggers the active key.
func (t *Triggers) Rewrap(c *triggerCall) (out *api.Secrets, err error) {
	ctx, err := c.by.changing(c.r.Context(), access.Alter, access.Cluster, access.ClusterName)
	if err != nil {
		return nil, err
	}
	done := 0
	err = t.change(ctx, func(ctx context.Context, e *trigger.Engine) error {
		done, err = e.Rewrap(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	if out, err = t.Secrets(c); err == nil {
		out.Rewrapped = done
	}
	return out, err
}
