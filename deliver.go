package seb

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	"github.com/sebbroker/seb/internal/delivery"
	"github.com/sebbroker/seb/internal/delivery/webhook"
	"github.com/sebbroker/seb/internal/node"
)

// deliver starts the delivery of firings. It returns nil for a read-only broker or with
// Options.NoDelivery.
func deliver(ctx context.Context, n *node.Node, targets webhook.Policy, o *Options) (*delivery.Dispatcher, error) {
	if o.NoDelivery || n.Triggers() == nil {
		return nil, nil
	}
	log := o.Logger
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	return delivery.Open(ctx, delivery.Options{
		Engine: n.Triggers(), Log: n.EventLog(), Lost: n.Done(),
		Webhooks: webhook.Options{Policy: targets, Bytes: delivery.BytesWithin(n.Budget().Limit())}, Logger: log,
	})
}

// policy parses Options.WebhookTargets.
func policy(o *Options) (webhook.Policy, error) {
	p, err := webhook.ParsePolicy(o.WebhookTargets)
	if err != nil {
		return p, fmt.Errorf("open broker: Options.WebhookTargets: %w", err)
	}
	return p, nil
}
