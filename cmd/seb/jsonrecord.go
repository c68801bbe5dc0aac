package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
)

// jsonRecord is a line of --format json. Binary data is in the base64 member, and the text member
// is then absent; null means no data.
type jsonRecord struct {
	Partition   int32        `json:"partition"`
	Offset      int64        `json:"offset"`
	Timestamp   int64        `json:"timestamp"` // ms since 1970
	Key         **string     `json:"key,omitempty"`
	KeyBase64   *string      `json:"key_base64,omitempty"`
	Value       **string     `json:"value,omitempty"`
	ValueBase64 *string      `json:"value_base64,omitempty"`
	Headers     []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key         string   `json:"key"`
	Value       **string `json:"value,omitempty"`
	ValueBase64 *string  `json:"value_base64,omitempty"`
}

func writeJSONRecord(w *bufio.Writer, partition int32, r *record.Record) error {
	p := jsonRecord{Partition: partition, Offset: r.Offset, Timestamp: r.Timestamp}
	p.Key, p.KeyBase64 = members(r.Key)
	p.Value, p.ValueBase64 = members(r.Value)
	for _, h := range r.Headers {
		text, b64 := members(h.Value)
		p.Headers = append(p.Headers, jsonHeader{Key: h.Key, Value: text, ValueBase64: b64})
	}
	return writeLine(w, &p)
}

// parseJSONRecord parses a line of writeJSONRecord.
func parseJSONRecord(line []byte) (r record.Record, err error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(line, &given); err != nil {
		return r, fmt.Errorf("invalid JSON record: %w", err)
	}
	_, text := given["value"]
	_, coded := given["value_base64"]
	if !text && !coded {
		return r, errors.New("missing value or value_base64 (null makes a tombstone)")
	}
	var p jsonRecord
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return r, fmt.Errorf("invalid JSON record: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("invalid JSON record: more than one object")
	}
	r.Timestamp = p.Timestamp
	var errs [2]error
	r.Key, errs[0] = bytesOf("key", p.Key, p.KeyBase64)
	r.Value, errs[1] = bytesOf("value", p.Value, p.ValueBase64)
	for _, h := range p.Headers {
		b, err := bytesOf("headers", h.Value, h.ValueBase64)
		errs[0] = errors.Join(errs[0], err)
		r.Headers = append(r.Headers, record.Header{Key: h.Key, Value: b})
	}
	return r, errors.Join(errs[:]...)
}

func bytesOf(name string, text **string, coded *string) ([]byte, error) {
	switch {
	case text != nil && *text != nil && coded != nil:
		return nil, fmt.Errorf("%s: given twice, as text and in base64", name)
	case text != nil && *text != nil:
		return []byte(**text), nil
	case coded == nil:
		return nil, nil
	}
	b, err := base64.StdEncoding.DecodeString(*coded)
	if err != nil {
		return nil, fmt.Errorf("%s_base64: %w", name, err)
	}
	return b, nil
}

// members returns the JSON members of b: text or null, or base64.
func members(b []byte) (text **string, b64 *string) {
	t, coded := api.TextOrBase64(b)
	if coded != nil {
		return nil, coded
	}
	return &t, nil
}
