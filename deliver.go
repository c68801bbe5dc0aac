package seb

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/sebbroker/seb/internal/dispatch"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/internal/webhook"
)

// deliver delivers what triggers fire, unless the broker only follows or is told not to.
func deliver(ctx context.Context, n *node.Node, targets webhook.Policy, o *Options) (*dispatch.Dispatcher, error) {
	if o.NoDelivery || n.Triggers() == nil {
		return nil, nil
	}
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return dispatch.Open(ctx, dispatch.Options{
		Engine: n.Triggers(), Log: n.EventLog(), Lost: n.Done(),
		Webhooks: webhook.Options{Policy: targets, Bytes: dispatch.BytesWithin(n.Budget().Limit())}, Logger: log,
	})
}

// policy reads Options.WebhookTargets.
func policy(o *Options) (webhook.Policy, error) {
	p, err := webhook.ParsePolicy(o.WebhookTargets)
	if err != nil {
		return p, fmt.Errorf("open broker: Options.WebhookTargets: %w", err)
	}
	return p, nil
}
