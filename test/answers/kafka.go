package answers

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/kafkatest"
	"github.com/sebbroker/seb/test/recordtest"
)

// kafkaTime bounds a request. A member waits three seconds for others to join its group.
const kafkaTime = 20 * time.Second

// fixtures are variables with batches in base64, whose bytes are the same in each run.
func fixtures() map[string]string {
	header := []record.Header{{Key: "h", Value: []byte("v")}}
	one := record.Record{Timestamp: 1_600_000_000_000, Key: []byte("k1"), Value: []byte("first"), Headers: header}
	two := record.Record{Timestamp: 1_600_000_000_001, Key: []byte("k2"), Value: []byte("second \x00\xff")}
	vars := map[string]string{}
	add := func(name string, o record.EncodeOptions, recs ...record.Record) {
		b, _ := recordtest.Encode(recs, o)
		vars[name] = base64.StdEncoding.EncodeToString(b)
		b[len(b)-1] ^= 1
		vars["bad-"+name] = base64.StdEncoding.EncodeToString(b)
	}
	add("batch", record.EncodeOptions{}, one, two)
	add("zstd-batch", record.EncodeOptions{Compression: record.Zstd}, one, two)
	add("tombstone", record.EncodeOptions{}, record.Record{Timestamp: 1_600_000_000_002, Key: []byte("k1")})
	return vars
}

// kafka sends a request in each version of the line, or each key.
func (r *run) kafka(ctx context.Context, c *call) ([]Answer, error) {
	fields := strings.Fields(c.what)
	if len(fields) == 1 && fields[0] == "*" {
		return r.allKeys(ctx, c)
	}
	var key int16 = -1
	for k := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(k) == fields[0] {
			key = k
		}
	}
	if key < 0 {
		return nil, errors.New("unknown name of an API key")
	}
	var answers []Answer
	for _, field := range fields[1:] {
		version, err := strconv.ParseInt(field, 10, 16)
		if err != nil {
			return nil, err
		}
		one := *c
		one.label = strings.Replace(c.label, c.what, fields[0]+" "+field, 1)
		list, err := r.one(ctx, &one, "kafka", func(ctx context.Context, c *call) (string, error) {
			req := kmsg.RequestForKey(key)
			if text := strings.Join(c.body, "\n"); text != "" {
				if err := json.Unmarshal([]byte(text), req); err != nil {
					return "", err
				}
			}
			return r.ask(ctx, c, req, int16(version))
		})
		if err != nil {
			return nil, err
		}
		answers = append(answers, list...)
	}
	return answers, nil
}

// allKeys sends an empty request of each key in the lowest and the highest version that the broker
// names, and in the next one, which it must not know.
func (r *run) allKeys(ctx context.Context, c *call) ([]Answer, error) {
	conn, err := r.conn(ctx, &call{at: c.at, as: "none"})
	if err != nil {
		return nil, err
	}
	hello, err := conn.Ask(ctx, kmsg.NewPtrApiVersionsRequest(), 0)
	if err != nil {
		return nil, err
	}
	type span struct{ from, to int16 }
	known := map[int16]span{}
	for _, k := range hello.(*kmsg.ApiVersionsResponse).ApiKeys {
		known[k.ApiKey] = span{k.MinVersion, k.MaxVersion}
	}
	var answers []Answer
	for key := range int16(kmsg.MaxKey + 1) {
		req := kmsg.RequestForKey(key)
		if req == nil {
			continue
		}
		versions := []int16{0}
		if s, ok := known[key]; ok {
			versions = []int16{s.from, s.to, s.to + 1}
		}
		for i, version := range versions {
			if i > 0 && version == versions[i-1] {
				continue
			}
			one := *c
			one.label = strings.Replace(c.label, c.what, fmt.Sprintf("%s %d empty", kmsg.NameForKey(key), version), 1)
			list, err := r.one(ctx, &one, "kafka", func(ctx context.Context, c *call) (string, error) {
				req := kmsg.RequestForKey(key)
				if p, ok := req.(*kmsg.ProduceRequest); ok {
					p.Acks = -1 // without, there is no answer
				}
				return r.ask(ctx, c, req, version)
			})
			if err != nil {
				return nil, err
			}
			answers = append(answers, list...)
		}
	}
	return answers, nil
}

// conn returns the connection for the call's broker and key.
func (r *run) conn(ctx context.Context, c *call) (*kafkatest.Conn, error) {
	name := c.at + " " + c.as
	if conn := r.conns[name]; conn != nil {
		return conn, nil
	}
	raw, err := r.dial(ctx, r.brokers[c.at].kafka)
	if err != nil {
		return nil, err
	}
	conn := &kafkatest.Conn{Conn: raw}
	if c.as != "none" {
		if err := r.login(ctx, conn, c.as); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	r.conns[name] = conn
	return conn, nil
}

// login authenticates as a token whose ID is the name of its variable, or with the root key.
func (r *run) login(ctx context.Context, conn *kafkatest.Conn, as string) error {
	hello := kmsg.NewPtrSASLHandshakeRequest()
	hello.Mechanism = "PLAIN"
	if _, err := conn.Ask(ctx, hello, 1); err != nil {
		return err
	}
	show := kmsg.NewPtrSASLAuthenticateRequest()
	user := map[bool]string{true: "seb", false: as}[as == "root"]
	show.SASLAuthBytes = []byte("\x00" + user + "\x00" + r.vars[as])
	answer, err := conn.Ask(ctx, show, 2)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.SASLAuthenticateResponse).ErrorCode)
}

// ask sends a request. A closed connection is an answer.
func (r *run) ask(ctx context.Context, c *call, req kmsg.Request, version int16) (string, error) {
	conn, err := r.conn(ctx, c)
	if err != nil {
		return "error: " + err.Error() + "\n", nil
	}
	ctx, cancel := context.WithTimeout(ctx, kafkaTime)
	defer cancel()
	resp, err := conn.Ask(ctx, req, version)
	if err != nil {
		delete(r.conns, c.at+" "+c.as)
		_ = conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.EPIPE) {
			return "(closed)\n", nil
		}
		return "error: " + err.Error() + "\n", nil
	}
	var b strings.Builder
	show(&b, "", reflect.ValueOf(resp).Elem())
	return b.String(), nil
}

// show prints the fields of an answer, one in a line with its path.
func show(b *strings.Builder, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if v.Type().Field(i).IsExported() && name != "Version" && name != "UnknownTags" {
				show(b, path+"."+name, v.Field(i))
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			fmt.Fprintf(b, "%s: null\n", path)
			return
		}
		show(b, path, v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			showBytes(b, path, v)
			return
		}
		if v.IsNil() || v.Len() == 0 {
			fmt.Fprintf(b, "%s: %s\n", path, map[bool]string{true: "null", false: "[]"}[v.IsNil()])
		}
		for i := range v.Len() {
			show(b, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Array: // IDs
		id := make([]byte, v.Len())
		reflect.Copy(reflect.ValueOf(id), v)
		fmt.Fprintf(b, "%s: %s\n", path, hex.EncodeToString(id))
	case reflect.String:
		fmt.Fprintf(b, "%s: %q\n", path, v.String())
	case reflect.Int16:
		if strings.HasSuffix(path, "ErrorCode") {
			fmt.Fprintf(b, "%s: %d %s\n", path, v.Int(), codeName(int16(v.Int())))
			return
		}
		fallthrough
	default:
		fmt.Fprintf(b, "%s: %v\n", path, v.Interface())
	}
}

func codeName(code int16) string {
	var err *kerr.Error
	if errors.As(kerr.ErrorForCode(code), &err) {
		return err.Message
	}
	return ""
}

// showBytes prints bytes: batches with their heads, others as a Go string.
func showBytes(b *strings.Builder, path string, v reflect.Value) {
	data := v.Bytes()
	if v.IsNil() {
		fmt.Fprintf(b, "%s: null\n", path)
		return
	}
	if !strings.HasSuffix(path, ".RecordBatches") || len(data) == 0 {
		fmt.Fprintf(b, "%s: %q\n", path, data)
		return
	}
	b.WriteString(batches(path, data))
}

// batches prints the heads of batches. The checksum of a batch of this run depends on its time.
func batches(path string, data []byte) string {
	var b strings.Builder
	for i := 0; len(data) >= record.BatchHeadSize; i++ {
		var batch kmsg.RecordBatch
		n := min(12+int(binary.BigEndian.Uint32(data[8:])), len(data))
		if err := batch.ReadFrom(data[:n]); err != nil {
			break
		}
		if time.Since(time.UnixMilli(batch.MaxTimestamp)) < time.Hour {
			batch.CRC = 0
		}
		show(&b, fmt.Sprintf("%s[%d]", path, i), reflect.ValueOf(batch))
		data = data[n:]
	}
	if len(data) > 0 {
		fmt.Fprintf(&b, "%s rest: %q\n", path, data)
	}
	return b.String()
}
