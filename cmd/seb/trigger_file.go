package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/base/decimal"
	"github.com/sebbroker/seb/internal/engine/base/input"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// triggerFileMax bounds the length of a trigger file.
const triggerFileMax = 1 << 20

// trigger is a trigger in a file: the body of PUT /triggers/{id}, with the ID.
type trigger struct {
	ID string `json:"id"`
	api.TriggerSpec
	expr driplang.Expr
	text string // the expression, if it is in text form
	tag  string // of the trigger that it changes; "": any, or none
}

// readTrigger reads a file in YAML or JSON; - is in. The default ID is the file's name without its
// extension.
func readTrigger(in io.Reader, name string) (t trigger, err error) {
	base := filepath.Base(name)
	file, err := openInput(in, "--file", name)
	if err != nil {
		return t, err
	}
	defer file.Close()
	if in = file; name != "-" {
		t.ID = strings.TrimSuffix(base, filepath.Ext(base))
	}
	text, err := input.ReadText(in, triggerFileMax)
	if err != nil {
		return t, usageError{fmt.Errorf("--file: %s: %w", name, err)}
	}
	if err := t.parse(text, filepath.Ext(name) == ".json"); err != nil {
		return t, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// parse parses a text in JSON, or in YAML if it need not be JSON.
func (t *trigger) parse(text []byte, isJSON bool) error {
	// JSON is not parsed as YAML, which differs in details.
	if trimmed := bytes.TrimSpace(text); !isJSON && (!bytes.HasPrefix(trimmed, []byte("{")) || !json.Valid(trimmed)) {
		d := yaml.NewDecoder(bytes.NewReader(text))
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			return plainYAML(err)
		}
		if err := d.Decode(new(any)); err != io.EOF {
			return errors.New("more than one document; use one file per trigger")
		}
		var exact yamlValue
		err := yaml.Unmarshal(text, &exact)
		if err == nil {
			text, err = json.Marshal(exact.any)
		}
		if err != nil {
			return err
		}
	}
	if err := input.JSON(text, t, input.NullIsAbsent); err != nil {
		return err
	}
	return errors.Join(t.parseExpr(), t.fillIn())
}

// yamlValue is a value of YAML whose numbers keep their digits, and whose times are texts, as in JSON.
type yamlValue struct{ any }

func (v *yamlValue) UnmarshalYAML(n *yaml.Node) error {
	_, isNumber := decimal.Parse([]byte(n.Value))
	switch {
	case n.Kind == yaml.MappingNode:
		var members map[string]yamlValue
		err := n.Decode(&members)
		v.any = members
		return err
	case n.Kind == yaml.SequenceNode:
		var list []yamlValue
		err := n.Decode(&list)
		v.any = list
		return err
	case n.Kind == yaml.ScalarNode && n.Style == 0 && isNumber:
		v.any = json.Number(n.Value)
		return nil
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp": // a text in JSON
		v.any = n.Value
		return nil
	}
	return n.Decode(&v.any)
}

func (v yamlValue) MarshalJSON() ([]byte, error) { return json.Marshal(v.any) }

// plainYAML formats a YAML error as one line.
func plainYAML(err error) error {
	if err == io.EOF {
		return errors.New("the file has no trigger")
	}
	if wrong, ok := errors.AsType[*yaml.TypeError](err); ok {
		return errors.New(strings.Join(wrong.Errors, ", "))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// check does the broker's checks as far as possible, so that no file is stored if one of several is
// invalid.
func (t *trigger) check() error {
	d := rule.Definition{
		ID: t.ID, Expr: t.expr, Fire: rule.Fire(t.Fire), Backfill: rule.Backfill(t.Backfill), CarryFired: t.CarryFired == nil || *t.CarryFired,
		OnRetract: rule.Retraction(t.OnRetract), Status: rule.Status(t.Status),
	}
	var faults []error
	if t.Cooldown != "" {
		cooldown, err := driplang.ParseDuration(t.Cooldown)
		if fault, ok := errors.AsType[*driplang.Error](err); ok {
			faults = append(faults, errors.New("cooldown: "+fault.Message))
		}
		d.Cooldown = cooldown.Milliseconds()
	}
	d = d.WithDefaults()
	if err := d.Validate(); err != nil {
		faults = append(faults, err)
	} else if _, err := rule.Compile(d); err != nil {
		faults = append(faults, err)
	}
	if t.Topic != "" {
		if err := state.CheckTopicName(t.Topic); err != nil {
			faults = append(faults, fmt.Errorf("topic: %w", err))
		}
	}
	if t.Deliver != nil {
		if err := checkDelivery(t.Deliver, t.expr.Names()); err != nil {
			faults = append(faults, fmt.Errorf("deliver: %w", err))
		}
	}
	return errors.Join(faults...)
}

// checkDelivery does not check addresses, because only the broker knows its allowed targets.
func checkDelivery(text []byte, events []string) error {
	anywhere, err := webhook.ParsePolicy([]string{webhook.AllowAll})
	if err != nil {
		return err
	}
	d, err := webhook.ParseDelivery(text)
	if err == nil {
		_, err = d.Plan(anywhere, events)
	}
	if err != nil {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "delivery: "), "\n", "; "))
	}
	return nil
}

func (t *trigger) parseExpr() (err error) {
	switch {
	case len(t.Expr) == 0 || string(t.Expr) == "null":
		return errors.New("expr: missing")
	case t.Expr[0] == '"':
		if err = json.Unmarshal(t.Expr, &t.text); err == nil {
			t.expr, err = driplang.Parse(t.text)
		}
	default:
		t.expr, err = driplang.ParseJSON(t.Expr)
	}
	if err != nil {
		return fmt.Errorf("expr: %w", err)
	}
	return nil
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// fillIn replaces ${NAME} in the URL, the secrets and the headers of a delivery by environment
// variables, so that files need not contain secrets.
func (t *trigger) fillIn() error {
	if len(t.Deliver) == 0 || string(t.Deliver) == "null" {
		t.Deliver = nil
		return nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(t.Deliver, &members); err != nil {
		return errors.New("deliver: want an object")
	}
	var missing []string
	for _, name := range []string{"url", "secrets", "headers"} {
		if members[name] == nil {
			continue
		}
		members[name] = reference.ReplaceAllFunc(members[name], func(ref []byte) []byte {
			value, ok := os.LookupEnv(string(ref[2 : len(ref)-1]))
			quoted, err := json.Marshal(value)
			if !ok || err != nil {
				missing = append(missing, string(ref))
				return ref
			}
			return quoted[1 : len(quoted)-1]
		})
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("deliver: not set in the environment: %s", strings.Join(missing, ", "))
	}
	var err error
	t.Deliver, err = json.Marshal(members)
	return err
}

// spec returns the trigger for the client.
func (t *trigger) spec() client.TriggerSpec {
	s := client.TriggerSpec{
		Expr: t.text, Topic: t.Topic, Fire: t.Fire, Cooldown: t.Cooldown, Backfill: t.Backfill,
		CarryFired: t.CarryFired, OnRetract: t.OnRetract, Status: t.Status, Deliver: t.Deliver, KeepDeliver: t.KeepDeliver, IfTag: t.tag,
	}
	if s.Expr == "" {
		s.Expr = string(t.Expr)
	}
	return s
}
