package index

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// fieldsOf shows the fields of a message.
func fieldsOf(t *testing.T, b []byte) string {
	t.Helper()
	var out []string
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatalf("field: %v", protowire.ParseError(n))
		}
		_, _, tag := protowire.ConsumeTag(b)
		text := strings.ToValidUTF8(string(b[tag:n]), "?")
		switch typ {
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(b[tag:])
			text = string(v)
			if num == fieldAttributes {
				text = "(" + fieldsOf(t, v) + ")"
			}
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(b[tag:])
			text = strconv.FormatInt(int64(v), 10)
			if num == fieldMetricInt {
				text = strconv.FormatInt(protowire.DecodeZigZag(v), 10)
			}
		case protowire.Fixed32Type:
			v, _ := protowire.ConsumeFixed32(b[tag:])
			text = strconv.FormatFloat(float64(math.Float32frombits(v)), 'g', -1, 32)
		case protowire.Fixed64Type:
			v, _ := protowire.ConsumeFixed64(b[tag:])
			text = strconv.FormatFloat(math.Float64frombits(v), 'g', -1, 64)
		}
		out = append(out, strconv.Itoa(int(num))+"="+text)
		b = b[n:]
	}
	return strings.Join(out, " ")
}

func TestEventsOfTheProtocol(t *testing.T) {
	for _, c := range []struct {
		data string
		time int64
		want string
	}{
		{
			`{"state":"ok","description":"d\"","tags":["a",1,"b"],"metric":-3,"ttl":1.5,"rack":"r","n":[1]}`, 1_600_000_000_250_000,
			`1=1600000000 10=1600000000250000 4=h 3=s 2=ok 5=d" 7=a 7=b 13=-3 15=-3 8=1.5 9=(1=rack 2=r) 9=(1=n 2=[1])`,
		},
		{`{"metric":0.25,"host":null,"service":"other"}`, -1, `1=-1 10=-1 3=other 14=0.25 15=0.25`},
		{`{"metric":"NaN","state":null}`, noTime, `1=1700000000 10=1700000000123000 4=h 3=s 14=NaN 15=NaN`},
		{`{"metric":"text","ttl":"x","tags":"a"}`, 0, `1=0 10=0 4=h 3=s`},
	} {
		check.Equalf(t, fieldsOf(t, of(c.data, c.time).appendMessage(nil)), c.want, "%s", c.data)
	}
}

func TestQueriesOfTheProtocol(t *testing.T) {
	l := newLog(1)
	x := Queries{open(t, l.broker(), "")}
	l.post(0, `a s {"metric":1}`, `b s {"metric":2}`)
	out := must.Get(x.Query(t.Context(), `metric = 2`, 1000))(t)
	_, _, tag := protowire.ConsumeTag(out)
	body, n := protowire.ConsumeBytes(out[tag:])
	if got := fieldsOf(t, body); tag+n != len(out) || !strings.HasSuffix(got, "4=b 3=s 13=2 15=2") {
		t.Errorf("answer %q", got)
	}
	if _, err := x.Query(t.Context(), `metric =`, 1000); err == nil || err.Error() != "parse error: character 9: expected a value, found the end" {
		t.Errorf("error %v", err)
	}
	if _, err := x.Query(t.Context(), `true`, 200); err == nil || err.Error() != "2 events match (350 bytes, the limit is 200), narrow the query" {
		t.Errorf("error %v", err)
	}
}
