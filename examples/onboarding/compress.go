package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/test/driplangtest"
)

// rule is a trigger for the comparison.
type rule struct {
	id       string
	expr     *driplangtest.Expr
	mode     driplangtest.Mode
	cooldown int64 // ms
	notify   bool  // of a retraction
}

var days = regexp.MustCompile(`(\d+) days?\b`)

// compress reads the triggers in folder from and writes them to folder to with days of length day. Triggers
// use log time, so a test cannot move the clock instead.
func compress(from, to string, day time.Duration) ([]rule, error) {
	names, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no triggers in %s: %v", from, err)
	}
	var list []rule
	for _, name := range names {
		r, err := compressFile(name, to, day)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func compressFile(name, to string, day time.Duration) (r rule, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	var members map[string]any
	if err := yaml.Unmarshal(text, &members); err != nil {
		return r, err
	}
	for _, key := range []string{"expr", "cooldown"} {
		if value, ok := members[key].(string); ok {
			members[key] = days.ReplaceAllStringFunc(value, func(d string) string {
				n, _ := strconv.Atoi(strings.Fields(d)[0])
				return fmt.Sprintf("%dms", (time.Duration(n) * day).Milliseconds())
			})
		}
	}
	// The default retries last 75 hours.
	if deliver, ok := members["deliver"].(map[string]any); ok {
		retries := make([]string, 60)
		for i := range retries {
			retries[i] = "1s"
		}
		deliver["retries"] = retries
	}
	r.id = strings.TrimSuffix(filepath.Base(name), ".yaml")
	if err := r.read(members); err != nil {
		return r, err
	}
	if text, err = json.MarshalIndent(members, "", "  "); err != nil {
		return r, err
	}
	return r, os.WriteFile(filepath.Join(to, r.id+".json"), text, 0o600)
}

func (r *rule) read(members map[string]any) error {
	expr, _ := members["expr"].(string)
	e, err := driplang.Parse(expr)
	if err != nil {
		return err
	}
	r.expr, r.mode = driplangtest.Of(e), driplangtest.Once
	if fire, ok := members["fire"].(string); ok {
		r.mode = driplangtest.Mode(fire)
	}
	if text, ok := members["cooldown"].(string); ok {
		d, err := driplang.ParseDuration(text)
		if err != nil {
			return err
		}
		r.cooldown = d.Milliseconds()
	}
	r.notify = members["on_retract"] == "notify"
	return nil
}
