// Command receiver takes the webhooks of Seb's triggers and "sends" mails: it appends each to a file. It is an example to copy:
// what stands between the request and the answer is what every receiver needs.
//
//	WEBHOOK_SECRET=whsec_... receiver -listen 127.0.0.1:8080 -mailbox mails.ndjson
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/sebbroker/seb/webhook"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	path := flag.String("mailbox", "mails.ndjson", "file of the mails, one on a line; it is also what the receiver remembers")
	flag.Parse()
	if err := serve(*listen, *path); err != nil {
		log.Fatal(err)
	}
}

func serve(listen, path string) error {
	secret, err := webhook.ParseSecret(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		return fmt.Errorf("WEBHOOK_SECRET: %w", err)
	}
	box, err := openMailbox(path)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	r := &receiver{verifier: webhook.Verifier{Secrets: []webhook.Secret{secret}}, box: box}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", r.hook)
	srv := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	log.Printf("%d mails so far, listening on %s", len(box.seen), l.Addr())
	return srv.Serve(l)
}

type receiver struct {
	verifier webhook.Verifier
	box      *mailbox
}

// Mail is what the templates of the triggers make: the body of a webhook is whatever its trigger's template says.
type Mail struct {
	Trigger string    `json:"trigger"`
	State   string    `json:"state"` // fired or retracted
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"` // when the trigger has fired
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
}

// hook answers 200 once a message is kept. With any other answer, or none, Seb sends it again.
func (r *receiver) hook(w http.ResponseWriter, req *http.Request) {
	message, err := r.verifier.Receive(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var m Mail
	if err := json.Unmarshal(message.Body, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.To == "" {
		http.Error(w, "to: missing", http.StatusBadRequest)
		return
	}
	switch err := r.box.keep(message.ID, m); {
	case errors.Is(err, errSeen): // it was sent, and the answer was lost: say so again
		log.Printf("again: %s", message.ID)
	case errors.Is(err, errUnheard): // nobody has heard of it, so nobody is to hear that it is over
		log.Printf("unheard: %s", message.ID)
	case err != nil:
		log.Fatal(err) // what is in the file is not known any more: start anew from there
	}
}
