package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/sebbroker/seb/internal/config"
)

// Run starts a broker, calls ready (which may be nil) once it accepts requests, and serves until ctx ends, which is how
// it is meant to end: then it stops in order and returns nil. Otherwise it returns why it could not go on:
// broker.ErrFenced, broker.ErrCorrupt or another.
func Run(ctx context.Context, cfg config.Config, log *slog.Logger, ready func(*Server)) error {
	s, err := Start(ctx, cfg, log)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			return nil // told to stop before there was anything to stop
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
		log.Error("can not go on", "err", s.Err())
	}
	failed := s.Err()
	if err := s.Close(context.WithoutCancel(ctx)); err != nil && failed == nil {
		return fmt.Errorf("stop: %w", err)
	}
	return failed
}
