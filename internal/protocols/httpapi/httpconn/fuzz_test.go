package httpconn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// parsed holds all that Params returns for a query and headers.
type parsed struct {
	Topic, Group        string
	Offset, Max         int64
	Partition           int32
	Timeout             time.Duration
	Latest              bool
	Key, Prefix, MinKey []byte
	Producer            *record.Producer
}

func readParams(query string, h http.Header) (r parsed, fault *api.Problem) {
	q := ParseParams(query)
	r = parsed{
		Offset: q.Offset(), Max: q.Number(ParamMaxRecords, 10, 1000), Partition: q.Partition(), Timeout: q.Duration(ParamTimeout, time.Second, time.Minute),
		Latest: q.Latest(), Key: q.Key(ParamKey), Prefix: q.Key(ParamPrefix), MinKey: q.Key(ParamAfter), Topic: q.Topic(), Group: q.Group(),
	}
	r.Producer = q.Producer(h, r.Partition)
	return r, q.Fault
}

// FuzzParams checks that parsed values are within their bounds, or that the fault names a
// parameter. The spelling of the query does not matter.
func FuzzParams(f *testing.F) {
	for _, s := range []string{
		"topic-name=a&offset=5&group=g", "topic-name=a.B_-9&offset=0&max-records=0&timeout=0s&group=g&key=%ff%00&prefix-base64=_-8&read=latest&partition=3",
		"topic-name=..&offset=1", "topic-name=a%00b", "offset=18446744073709551615&topic-name=x&group=", "a;b", "key=a&key-base64=YQ", "timeout=-1s", "&&a&=&a=&b==&a=1&",
	} {
		f.Add(s, "7", "1", "5")
		f.Add(s, "", "", "")
	}
	names := []string{
		ParamTopic, ParamPartition, ParamOffset, ParamMaxRecords, ParamTimeout, ParamRead, ParamForce, ParamGroup, ParamKey, ParamPrefix, ParamAfter,
		ParamKey + Base64, ParamPrefix + Base64, ParamAfter + Base64, "query", api.HeaderProducerID, api.HeaderProducerEpoch, api.HeaderSequence,
	}
	f.Fuzz(func(t *testing.T, query, id, epoch, sequence string) {
		h := http.Header{}
		for name, v := range map[string]string{api.HeaderProducerID: id, api.HeaderProducerEpoch: epoch, api.HeaderSequence: sequence} {
			if v != "" {
				h.Set(name, v)
			}
		}
		got, fault := readParams(query, h)
		if fault != nil {
			if fault.Code != api.BadRequest || !slices.Contains(names, fault.Field) || !strings.HasPrefix(fault.Detail, fault.Field) || len(fault.Detail) > 1000 {
				t.Fatalf("%q: %+v", query, fault)
			}
		} else if got.Offset < 0 || got.Max < 0 || got.Max > 1000 || got.Partition < -1 || got.Timeout < 0 || got.Timeout > time.Minute || got.Group == "" ||
			len(got.Key) > KeyMax || len(got.Prefix) > KeyMax || state.CheckTopicName(got.Topic) != nil {
			t.Fatalf("%q parsed as %+v", query, got)
		} else if p := got.Producer; p != nil && (p.ID < 0 || p.Epoch < 0 || p.Sequence < 0 || got.Partition < 0) {
			t.Fatalf("%q parsed as %+v", query, got)
		}
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for name, want := range values {
			if v, n := ParseParams(query).find(name); name != "" && (n != len(want) || v != want[0]) {
				t.Fatalf("%q: %d values of %q, first %q, want %q", query, n, name, v, want)
			}
		}
		if again, _ := readParams(values.Encode(), h); !reflect.DeepEqual(again, got) {
			t.Fatalf("%q parsed as %+v, %q as %+v", query, got, values.Encode(), again)
		}
	})
}

// FuzzAccept checks that the result was offered and that no offer has a higher quality. Several
// header lines mean the same as one.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"*/*", "application/x-ndjson, application/json;q=0.5", "application/json;q=0, application/*", "text/*", "application/problem+json", ";,q=", "a/b;q=NaN"} {
		f.Add(s, uint8(3))
	}
	offers := []string{api.Multipart, api.JSON, api.NDJSON, api.RecordBatch, api.EventStream}
	f.Fuzz(func(t *testing.T, header string, first uint8) {
		offers := append(slices.Clone(offers[first%5:]), offers[:first%5]...)
		got := Negotiate([]string{header}, offers)
		if got != "" && !slices.Contains(offers, got) {
			t.Fatalf("%q gives %q", header, got)
		}
		if split := strings.Split(header, ","); Negotiate(split, offers) != got && strings.TrimSpace(header) != "" {
			t.Fatalf("%q gives %q, as separate lines %q", header, got, Negotiate(split, offers))
		}
		ranges := parseAccept([]string{header})
		for _, o := range offers {
			if q := quality(ranges, o); q < 0 || q > 1 || math.IsNaN(q) || len(ranges) > 0 && got != "" && quality(ranges, got) > 0 && q > quality(ranges, got) {
				t.Fatalf("%q gives %q, but %s has quality %v", header, got, o, q)
			}
		}
	})
}

// request returns a request whose body arrives in pieces. declared sets its Content-Length.
func request(body []byte, cuts uint64, declared bool) *http.Request {
	r := &http.Request{Body: sebtest.Cut(body, cuts), ContentLength: -1, Header: http.Header{}}
	if declared {
		r.ContentLength = int64(len(body))
	}
	return r
}

// FuzzReadAll checks that a body is read unchanged or refused for its size, and that all memory is
// released.
func FuzzReadAll(f *testing.F) {
	f.Add([]byte("a body"), uint64(3), uint16(100))
	f.Add([]byte{}, uint64(0), uint16(1))
	f.Add(bytes.Repeat([]byte("x"), 3000), uint64(1<<60), uint16(2999))
	total := budget.New(32 << 20)
	class := total.Class(budget.Produce)
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64, limit uint16) {
		for _, declared := range []bool{false, true} {
			in := Body{
				W: httptest.NewRecorder(), R: request(b, cuts, declared), Timeout: ProgressTimeout(time.Minute), Max: int64(limit),
				Memory: budget.Arena{Class: class, Buffers: total.Buffers()},
			}
			err := in.Open()
			var got []byte
			if err == nil {
				got, err = in.ReadAll()
			}
			var p *api.Problem
			switch {
			case len(b) > int(limit):
				if !errors.As(err, &p) || p.Code != api.TooLarge {
					t.Fatalf("%d bytes, at most %d: %v", len(b), limit, err)
				}
			case len(b) == 0:
				if !errors.As(err, &p) || p.Code != api.BadRequest {
					t.Fatalf("empty body: %v", err)
				}
			case err != nil || !bytes.Equal(got, b):
				t.Fatalf("%d of %d bytes, %v", len(got), len(b), err)
			}
			in.Memory.Release()
		}
		must.Equalf(t, class.Used(), 0, "bytes are still reserved")
	})
}

// FuzzJSONBody checks that a small JSON body decodes like encoding/json, or fails with a fault that
// names a field.
func FuzzJSONBody(f *testing.F) {
	for _, s := range []string{`{"group":"g","offsets":[{"topic":"t","partition":1,"offset":5}]}`, `{"offsets":null}`, `{} {}`, `{"x":1}`, `{"offsets":[{"offset":1.5}]}`, ``, `[`} {
		f.Add([]byte(s), uint64(5))
	}
	f.Fuzz(func(t *testing.T, b []byte, cuts uint64) {
		const limit = 300
		var v, again, want api.OffsetCommits
		err := JSON(httptest.NewRecorder(), request(b, cuts, false), limit, &v)
		err2 := JSON(httptest.NewRecorder(), request(b, math.MaxUint64, true), limit, &again)
		if len(b) <= limit && fmt.Sprint(err) != fmt.Sprint(err2) || (err == nil) != (err2 == nil) || !reflect.DeepEqual(v, again) {
			t.Fatalf("%q: %+v %v, in one piece %+v %v", b, v, err, again, err2)
		}
		if err == nil {
			d := json.NewDecoder(bytes.NewReader(b))
			if refErr := d.Decode(&want); refErr != nil || !reflect.DeepEqual(v, want) || len(b) > limit {
				t.Fatalf("%q: %+v, want %+v, %v", b, v, want, refErr)
			}
			if _, end := d.Token(); end != io.EOF {
				t.Fatalf("%q: more than one value was accepted", b)
			}
			return
		}
		var p *api.Problem
		if !errors.As(err, &p) || p.Field == "" || (p.Code == api.TooLarge) != (len(b) > limit) {
			t.Fatalf("%q: %v", b, err)
		}
	})
}
