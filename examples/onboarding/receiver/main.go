// Command receiver accepts webhooks of Seb's triggers and "sends" mails: it appends each to a file. It is an
// example to copy: every receiver needs the same steps between request and answer.
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
	path := flag.String("mailbox", "mails.ndjson", "file with one mail per line, which is also the receiver's state")
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
	log.Printf("%d mails in the mailbox, listening on %s", len(box.seen), l.Addr())
	return srv.Serve(l)
}

type receiver struct {
	verifier webhook.Verifier
	box      *mailbox
}

// Mail is the body of a webhook, as the templates of the triggers make it.
type Mail struct {
	Trigger string    `json:"trigger"`
	State   string    `json:"state"` // fired or retracted
	Entity  string    `json:"entity"`
	At      time.Time `json:"at"` // when the trigger fired
	To      string    `json:"to"`
	Subject string    `json:"subject"`
	Text    string    `json:"text"`
}

// hook answers 200 after the message is on disk. After another answer, or none, Seb sends it again.
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
	case errors.Is(err, errSeen): // the answer was lost: answer again
		log.Printf("again: %s", message.ID)
	case errors.Is(err, errUnknownFiring): // its firing never arrived, so no mail about its end
		log.Printf("retraction of an unknown firing: %s", message.ID)
	case err != nil:
		log.Fatal(err) // the content of the file is unknown: restart and read it
	}
}
