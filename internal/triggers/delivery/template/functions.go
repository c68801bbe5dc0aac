package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template/parse"
	"time"
	_ "time/tzdata" // zones for machines without their own
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/decimal"
	"github.com/sebbroker/seb/internal/engine/base/input"
)

// function is a template function. Missing arguments are errors unless absent is set.
type function struct {
	least, most int // number of arguments; most is -1 if unlimited
	usage       string
	absent      bool
	run         func(r *execution, args []any) (any, error)
}

const (
	nameAnd = "and" // evaluated by call, with short-circuit
	nameOr  = "or"
)

var functions = map[string]function{
	nameAnd:    {least: 1, most: -1, usage: "VALUE...", absent: true},
	nameOr:     {least: 1, most: -1, usage: "VALUE...", absent: true},
	"not":      {least: 1, most: 1, usage: "VALUE", absent: true, run: not},
	"default":  {least: 2, most: 2, usage: "FALLBACK VALUE", absent: true, run: fallback},
	"eq":       {least: 2, most: -1, usage: "VALUE VALUE...", run: equalAny},
	"ne":       {least: 2, most: 2, usage: "VALUE VALUE", run: notEqual},
	"lt":       {least: 2, most: 2, usage: "VALUE VALUE", run: ordered(func(c int) bool { return c < 0 })},
	"le":       {least: 2, most: 2, usage: "VALUE VALUE", run: ordered(func(c int) bool { return c <= 0 })},
	"gt":       {least: 2, most: 2, usage: "VALUE VALUE", run: ordered(func(c int) bool { return c > 0 })},
	"ge":       {least: 2, most: 2, usage: "VALUE VALUE", run: ordered(func(c int) bool { return c >= 0 })},
	"len":      {least: 1, most: 1, usage: "VALUE", run: length},
	"index":    {least: 2, most: -1, usage: "LIST-OR-OBJECT INDEX-OR-KEY...", run: index},
	"json":     {least: 1, most: 1, usage: "VALUE", run: asJSON},
	"html":     {least: 1, most: 1, usage: "TEXT", run: asHTML},
	"urlquery": {least: 1, most: 1, usage: "TEXT", run: onText(func(s string) any { return safe(url.QueryEscape(s)) })},
	"upper":    {least: 1, most: 1, usage: "TEXT", run: onText(func(s string) any { return strings.ToUpper(s) })},
	"lower":    {least: 1, most: 1, usage: "TEXT", run: onText(func(s string) any { return strings.ToLower(s) })},
	"trim":     {least: 1, most: 1, usage: "TEXT", run: onText(func(s string) any { return strings.TrimSpace(s) })},
	"truncate": {least: 2, most: 2, usage: "LENGTH TEXT", run: truncate},
	"join":     {least: 2, most: 2, usage: "SEPARATOR LIST", run: join},
	"date":     {least: 2, most: 3, usage: "LAYOUT [ZONE] INSTANT", run: date},
}

var functionNames = slices.Sorted(maps.Keys(functions))

// call evaluates a function's arguments, the last of which may come from a pipe, and runs it.
func (r *execution) call(dot any, name string, args []parse.Node, piped []any) (any, error) {
	if name == nameAnd || name == nameOr {
		return r.decide(dot, name == nameOr, args, piped)
	}
	f := functions[name]
	values := make([]any, 0, len(args)+1)
	for _, arg := range args {
		v, err := r.operand(dot, arg)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	values = append(values, piped...)
	for _, v := range values {
		if absent, ok := v.(missing); ok && !f.absent {
			return nil, absent
		}
		if err := r.spend(size(v)); err != nil {
			return nil, err
		}
	}
	v, err := f.run(r, values)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if size(v) > BytesMax {
		return nil, fmt.Errorf("%s: result exceeds %d bytes", name, BytesMax)
	}
	return v, nil
}

// decide evaluates and/or: the first false/true value, or the last value.
func (r *execution) decide(dot any, until bool, args []parse.Node, piped []any) (v any, err error) {
	for _, arg := range args {
		if v, err = r.operand(dot, arg); err != nil {
			return nil, err
		}
		if err := r.spend(size(v)); err != nil {
			return nil, err
		}
		if truth(v) == until {
			return v, nil
		}
	}
	if len(piped) > 0 {
		return piped[0], nil
	}
	return v, nil
}

func not(_ *execution, args []any) (any, error) { return !truth(args[0]), nil }

// fallback returns its first argument if the second is missing, null or an empty string, but not if
// it is 0 or false.
func fallback(_ *execution, args []any) (any, error) {
	switch v := args[1].(type) {
	case missing, nil:
		return args[0], nil
	case string:
		if v == "" {
			return args[0], nil
		}
	}
	return args[1], nil
}

// text converts a string, number, boolean or time to a string.
func text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case safe:
		return string(v), nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case time.Time:
		return instant(v).Format(instantLayout), nil
	}
	return "", fmt.Errorf("want a string, got %s", kindOf(v))
}

func onText(f func(string) any) func(*execution, []any) (any, error) {
	return func(_ *execution, args []any) (any, error) {
		s, err := text(args[0])
		if err != nil {
			return nil, err
		}
		if len(s) > BytesMax {
			return nil, fmt.Errorf("the string exceeds %d bytes", BytesMax)
		}
		return f(s), nil
	}
}

func asJSON(r *execution, args []any) (any, error) {
	encoded, err := r.json(args[0])
	if err != nil {
		return nil, err
	}
	if r.t.escape == escapeJSON {
		return safe(encoded), nil
	}
	return encoded, nil
}

// asHTML escapes once, even if the output is escaped too.
func asHTML(r *execution, args []any) (any, error) {
	s, err := text(args[0])
	if err != nil {
		return nil, err
	}
	escaped := html.EscapeString(s)
	if r.t.escape == escapeMarkup {
		return safe(escaped), nil
	}
	return escaped, nil
}

func length(_ *execution, args []any) (any, error) {
	switch v := args[0].(type) {
	case []any:
		return number(int64(len(v))), nil
	case map[string]any:
		return number(int64(len(v))), nil
	case witness:
		return number(int64(len(v))), nil
	}
	s, err := text(args[0])
	if err != nil {
		return nil, errors.New("want a string, a list or an object")
	}
	return number(int64(utf8.RuneCountInString(s))), nil
}

// index accesses lists by number, from 0, and objects and the list of events by name.
func index(r *execution, args []any) (any, error) {
	v := args[0]
	for _, key := range args[1:] {
		name, err := text(key)
		if err != nil {
			return nil, err
		}
		if absent, ok := v.(missing); ok {
			return absent, nil
		}
		n, isNumber := key.(json.Number)
		switch list := v.(type) {
		case []any:
			v, err = element(list, n, isNumber)
		case witness:
			if isNumber {
				v, err = element(list, n, true)
			} else {
				v, err = r.field(list, name, "event "+quoted(name))
			}
		case map[string]any:
			v, err = r.field(list, name, "key "+quoted(name))
		default:
			err = fmt.Errorf("want a list or an object, got %s", kindOf(v))
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func element[T any](list []T, n json.Number, isNumber bool) (any, error) {
	i, err := strconv.Atoi(n.String())
	if !isNumber || err != nil {
		return nil, errors.New("want an integer index for a list")
	}
	if i < 0 || i >= len(list) {
		return missing{fmt.Sprintf("element %d of %d", i, len(list)), "is missing"}, nil
	}
	return list[i], nil
}

// truncate keeps whole characters. An ellipsis, which counts, marks the removed rest.
func truncate(_ *execution, args []any) (any, error) {
	n, isNumber := args[0].(json.Number)
	limit, err := strconv.Atoi(n.String())
	if !isNumber || err != nil || limit < 1 {
		return nil, errors.New("want a length of 1 or more")
	}
	s, err := text(args[1])
	if err != nil {
		return nil, err
	}
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s, nil
	}
	count := 0
	for i := range s {
		if count++; count == limit {
			return s[:i] + "…", nil
		}
	}
	return s, nil
}

func join(r *execution, args []any) (any, error) {
	separator, err := text(args[0])
	if err != nil {
		return nil, err
	}
	list, ok := args[1].([]any)
	if !ok {
		return nil, fmt.Errorf("want a list, got %s", kindOf(args[1]))
	}
	var b strings.Builder
	for i, v := range list {
		s, err := text(v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(s)
		if b.Len() > BytesMax {
			break // call reports it
		}
	}
	return b.String(), nil
}

const (
	layoutMax = 256
	zoneSteps = 100 // steps of a time zone lookup
)

// date formats a time, or a string in RFC 3339, with a Go layout.
func date(r *execution, args []any) (any, error) {
	layout, ok := args[0].(string)
	if !ok || layout == "" || len(layout) > layoutMax {
		return nil, fmt.Errorf("layout: want 1 to %d bytes such as \"2 January 2006\"", layoutMax)
	}
	at, ok := args[len(args)-1].(time.Time)
	if !ok {
		s, isText := args[len(args)-1].(string)
		var err error
		if at, err = input.Time(s); !isText || err != nil {
			return nil, errors.New("want a time, or a string such as 2006-01-02T15:04:05Z")
		}
	}
	zone := time.UTC
	if len(args) == 3 {
		name, _ := args[1].(string)
		var err error
		if err := r.spend(zoneSteps * stepBytes); err != nil {
			return nil, err
		}
		if zone, err = Zone(name); err != nil {
			return nil, fmt.Errorf("zone: %w", err)
		}
	}
	return at.In(zone).Format(layout), nil
}

// equal compares numbers by value, and other values of the same kind; values of different kinds are
// never equal.
func equal(a, b any) (bool, error) {
	switch a := plainText(a).(type) {
	case nil:
		return b == nil, nil
	case bool:
		other, ok := b.(bool)
		return ok && a == other, nil
	case string, json.Number, time.Time:
		if kindOf(a) != kindOf(plainText(b)) {
			return false, nil
		}
		c, err := compare(a, b)
		return c == 0, err
	}
	return false, fmt.Errorf("%s cannot be compared", kindOf(a))
}

func plainText(v any) any {
	if s, ok := v.(safe); ok {
		return string(s)
	}
	return v
}

func equalAny(_ *execution, args []any) (any, error) {
	for _, other := range args[1:] {
		if same, err := equal(args[0], other); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func notEqual(_ *execution, args []any) (any, error) {
	same, err := equal(args[0], args[1])
	return !same, err
}

func ordered(holds func(int) bool) func(*execution, []any) (any, error) {
	return func(_ *execution, args []any) (any, error) {
		c, err := compare(args[0], args[1])
		return holds(c), err
	}
}

// compare orders two strings, two numbers or two times.
func compare(a, b any) (int, error) {
	switch a := plainText(a).(type) {
	case string:
		if b, ok := plainText(b).(string); ok {
			return strings.Compare(a, b), nil
		}
	case json.Number:
		if b, ok := b.(json.Number); ok {
			return compareNumbers(a, b)
		}
	case time.Time:
		if b, ok := b.(time.Time); ok {
			return a.Compare(b), nil
		}
	}
	return 0, fmt.Errorf("%s and %s cannot be compared", kindOf(a), kindOf(b))
}

func compareNumbers(a, b json.Number) (int, error) {
	x, okX := decimal.Parse([]byte(a))
	y, okY := decimal.Parse([]byte(b))
	if !okX || !okY {
		return 0, errors.New("number too large")
	}
	return x.Compare(y), nil
}

const zoneNameMax = 64

// Zone is a time zone of the IANA database, such as "Europe/Berlin" or "UTC". The machine's local
// zone is refused.
func Zone(name string) (*time.Location, error) {
	if name == "" || len(name) > zoneNameMax || strings.EqualFold(name, "local") {
		return nil, fmt.Errorf("invalid time zone %.*q, want a name such as Europe/Berlin or UTC", zoneNameMax, name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q, want one of the IANA database", name)
	}
	return zone, nil
}
