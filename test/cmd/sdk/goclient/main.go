// Command goclient is the conformance command of package client and package webhook: the driver `go run
// ./test/cmd/sdk` starts it like those of the SDKs for other languages. It reads requests from standard
// input, a JSON object per line, carries them out concurrently, and writes an answer for each:
//
//	{"id":1,"call":"send","args":{"queue":"mails","messages":[{"value":"a"}]}}
//	{"id":1,"result":{"messages":[{"id":"0-0"}]}}
//
// An answer has a result, an error, or, after a panic, a crash.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/webhook"
)

type request struct {
	ID   int             `json:"id"`
	Call string          `json:"call"`
	Args json.RawMessage `json:"args"`
}

type answer struct {
	ID     int    `json:"id"`
	Result any    `json:"result,omitempty"`
	Error  *fault `json:"error,omitempty"`
	Crash  string `json:"crash,omitempty"`
}

// fault is an error of a call.
type fault struct {
	Outcome string                 `json:"outcome"`
	Code    string                 `json:"code"`
	Status  int                    `json:"status"`
	Detail  string                 `json:"detail"`
	Results []client.ProduceResult `json:"results,omitempty"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	var s session
	var calls sync.WaitGroup
	var mu sync.Mutex // guards out
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			s.stop()
			calls.Wait()
			return nil
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		do := func() {
			a := s.answer(&r)
			text, err := json.Marshal(a)
			if err != nil {
				text, _ = json.Marshal(answer{ID: r.ID, Crash: err.Error()})
			}
			mu.Lock()
			defer mu.Unlock()
			_, _ = out.Write(append(text, '\n')) // an error means that the driver has ended
		}
		if r.Call == "open" { // before the calls that follow
			do()
		} else {
			calls.Go(do)
		}
	}
}

// answer carries out a request.
func (s *session) answer(r *request) (a answer) {
	a.ID = r.ID
	defer func() {
		if v := recover(); v != nil {
			a = answer{ID: r.ID, Crash: fmt.Sprintf("%v\n%s", v, debug.Stack())}
		}
	}()
	call := calls[r.Call]
	if call == nil {
		a.Crash = "unknown call " + r.Call
		return a
	}
	result, err := call(context.Background(), s, r.Args)
	if err != nil {
		a.Error = faultOf(err)
		return a
	}
	if a.Result = result; result == nil {
		a.Result = struct{}{}
	}
	return a
}

func faultOf(err error) *fault {
	if e, ok := errors.AsType[*client.Error](err); ok {
		f := &fault{Outcome: [...]string{"none", "rejected", "unknown"}[e.Outcome], Code: e.Code, Status: e.Status, Detail: e.Detail, Results: e.Results}
		if f.Detail == "" {
			f.Detail = e.Error()
		}
		return f
	}
	f := &fault{Outcome: "none", Detail: err.Error()}
	for code, reason := range map[string]error{"bad_headers": webhook.ErrHeader, "timestamp": webhook.ErrTimestamp, "signature": webhook.ErrSignature} {
		if errors.Is(err, reason) {
			f.Code = code
		}
	}
	return f
}

// decode reads the arguments of a call. A member that it does not know is an error of the driver.
func decode(args json.RawMessage, v any) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		panic(err)
	}
}
