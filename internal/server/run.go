package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sebbroker/seb/internal/config"
)

// Run starts a broker, calls ready (which may be nil) once it accepts requests, and serves until
// ctx ends. It then stops in order and returns nil. Otherwise it returns the reason for the end:
// broker.ErrFenced, broker.ErrCorrupt or another error.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(*Server)) error {
	s, err := Start(ctx, cfg, log)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil // ctx ended before the start
		}
		return err
	}
	s.announce()
	if ready != nil {
		ready(s)
	}
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case <-s.Done():
		log.Error("broker stopped", "err", s.Err())
	}
	failed := s.Err()
	if err := s.Close(context.WithoutCancel(ctx)); err != nil && failed == nil {
		return fmt.Errorf("stop: %w", err)
	}
	return failed
}
