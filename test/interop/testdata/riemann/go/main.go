// Command riemann sends the events of a file with riemann-go-client, or prints the answer to a
// query.
//
//	usage: riemann send FILE | query TEXT    (environment: PORT)
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	riemanngo "github.com/riemann/riemann-go-client"
)

type event struct {
	Host        string            `json:"host"`
	Service     string            `json:"service"`
	State       string            `json:"state"`
	Description string            `json:"description"`
	Time        int64             `json:"time"`
	TTL         float64           `json:"ttl"`
	Tags        []string          `json:"tags"`
	Attributes  map[string]string `json:"attributes"`
	Kind        string            `json:"kind,omitempty"`
	Metric      string            `json:"metric"`
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(command, argument string) error {
	client := riemanngo.NewTCPClient("127.0.0.1:"+os.Getenv("PORT"), 30*time.Second)
	if err := client.Connect(); err != nil {
		return err
	}
	defer client.Close()
	if command == "send" {
		return send(client, argument)
	}
	events, err := client.QueryIndex(argument)
	if err != nil {
		return err
	}
	to := json.NewEncoder(os.Stdout)
	for _, e := range events {
		err := to.Encode(event{
			Host: e.Host, Service: e.Service, State: e.State, Description: e.Description, Time: e.Time.Unix(), TTL: e.TTL.Seconds(),
			Tags: e.Tags, Attributes: e.Attributes, Metric: fmt.Sprint(e.Metric),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func send(client riemanngo.Client, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		metric, err := number(e.Kind, e.Metric)
		if err != nil {
			return err
		}
		answer, err := riemanngo.SendEvent(client, &riemanngo.Event{
			Host: e.Host, Service: e.Service, State: e.State, Description: e.Description, Time: time.Unix(e.Time, 0),
			TTL: time.Duration(e.TTL * float64(time.Second)), Tags: e.Tags, Attributes: e.Attributes, Metric: metric,
		})
		if err != nil || !answer.GetOk() {
			return fmt.Errorf("not acknowledged: %w, %s", err, answer.GetError())
		}
	}
	return nil
}

func number(kind, text string) (any, error) {
	switch kind {
	case "sint64":
		return strconv.ParseInt(text, 10, 64)
	case "f":
		f, err := strconv.ParseFloat(text, 32)
		return float32(f), err
	default:
		return strconv.ParseFloat(text, 64)
	}
}
