package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/internal/riemann/query"
)

// Queries answers the queries of Riemann's protocol.
type Queries struct{ *Index }

// behindMax bounds the time that a query waits for the events before it.
const behindMax = 10 * time.Second

// Query returns the events for which a query is true, each encoded as the field events of a Msg, at
// most limit bytes. It sees every event that was committed before the call. The error is a sentence
// for the client.
func (x Queries) Query(ctx context.Context, text string, limit int) ([]byte, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("parse error: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, behindMax)
	err = x.CatchUp(waiting)
	cancel()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("the index is more than %s behind, retry later", behindMax)
	case err != nil:
		return nil, err
	}
	var out []byte
	err = x.Index.Query(ctx, q, int64(limit), func(e *Event) error {
		out = e.appendField(out)
		if len(out) > limit {
			return fmt.Errorf("the events that match have more than %d bytes, narrow the query", limit)
		}
		return nil
	})
	return out, err
}

// Fields of Riemann's messages.
const (
	fieldEvents = 6 // of Msg

	fieldTime        = 1
	fieldState       = 2
	fieldService     = 3
	fieldHost        = 4
	fieldDescription = 5
	fieldTags        = 7
	fieldTTL         = 8
	fieldAttributes  = 9
	fieldTimeMicros  = 10
	fieldMetricInt   = 13
	fieldMetricD     = 14
	fieldMetricF     = 15

	fieldKey   = 1 // of Attribute
	fieldValue = 2
)

// appendField appends the event as the field events of a Msg.
func (e *Event) appendField(dst []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, fieldEvents, protowire.BytesType), e.appendMessage(nil))
}

// appendMessage appends the event as a message. As in Riemann, a metric is also in metric_f, the only
// one that old clients read.
func (e *Event) appendMessage(b []byte) []byte {
	micros := e.micros()
	at := micros / 1_000_000
	if micros%1_000_000 < 0 {
		at--
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldTime, protowire.VarintType), uint64(at))
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldTimeMicros, protowire.VarintType), uint64(micros))
	b = appendOptional(b, fieldHost, e.Field("host"))
	b = appendOptional(b, fieldService, e.Field("service"))
	for _, m := range e.list() {
		switch name := string(value(m.name).Text); name {
		case "host", "service", "time", "time_micros":
		case "state":
			b = appendOptional(b, fieldState, value(m.value))
		case "description":
			b = appendOptional(b, fieldDescription, value(m.value))
		case "tags":
			for tag := range e.tags {
				b = appendOptional(b, fieldTags, tag)
			}
		case "metric":
			b = appendMetric(b, e.Field(name))
		case "ttl":
			if v := e.Field(name); v.Kind == query.Integer || v.Kind == query.Float {
				b = protowire.AppendFixed32(protowire.AppendTag(b, fieldTTL, protowire.Fixed32Type), math.Float32bits(float32(double(v))))
			}
		default:
			b = protowire.AppendBytes(protowire.AppendTag(b, fieldAttributes, protowire.BytesType), appendAttribute(nil, name, m.value))
		}
	}
	return b
}

// appendOptional appends a text; other values are absent.
func appendOptional(b []byte, field protowire.Number, v query.Value) []byte {
	if v.Kind != query.Text {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v.Text)
}

// appendAttribute appends an attribute. A value that is no text is shown as JSON.
func appendAttribute(b []byte, name string, raw []byte) []byte {
	text := raw
	if v := value(raw); v.Kind == query.Text {
		text = v.Text
	}
	b = protowire.AppendString(protowire.AppendTag(b, fieldKey, protowire.BytesType), name)
	return protowire.AppendBytes(protowire.AppendTag(b, fieldValue, protowire.BytesType), text)
}

func appendMetric(b []byte, v query.Value) []byte {
	switch v.Kind {
	case query.Integer:
		b = protowire.AppendVarint(protowire.AppendTag(b, fieldMetricInt, protowire.VarintType), protowire.EncodeZigZag(v.Int))
	case query.Float:
		b = protowire.AppendFixed64(protowire.AppendTag(b, fieldMetricD, protowire.Fixed64Type), math.Float64bits(v.Float))
	default:
		return b
	}
	return protowire.AppendFixed32(protowire.AppendTag(b, fieldMetricF, protowire.Fixed32Type), math.Float32bits(float32(double(v))))
}

// double returns a number as a double.
func double(v query.Value) float64 {
	if v.Kind == query.Integer {
		return float64(v.Int)
	}
	return v.Float
}
