package server

import (
	"fmt"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/cost"
	"github.com/sebbroker/seb/internal/objstore"
)

// loadPrices reads the price list of --prices, and the budget at these prices.
func (s *Server) loadPrices() error {
	spec, err := objstore.ParseSpec(s.cfg.Bucket)
	if err != nil {
		return err
	}
	if s.prices, err = cost.LoadPrices(s.cfg.Prices, spec.Kind); err != nil {
		return config.Faults{fmt.Errorf("--prices %q: %w", s.cfg.Prices, err)}
	}
	if s.budget, err = cost.ParseSetting(s.cfg.PutBudget); err == nil {
		_, err = s.budget.Limit(&s.prices, 0)
	}
	if err != nil {
		return config.Faults{fmt.Errorf("--put-budget %q: %w", s.cfg.PutBudget, err)}
	}
	return nil
}
