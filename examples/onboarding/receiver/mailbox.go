package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// mailbox appends mails to a file, each with the ID of its message. Mail and ID are one line, so that neither
// exists without the other. With a database they are one transaction.
type mailbox struct {
	letters chan *letter

	// Used only by run.
	file *os.File
	seen map[string]bool // IDs in the file
}

// Sent is a line of the file.
type Sent struct {
	ID string    `json:"id"`
	At time.Time `json:"sent_at"`
	Mail
}

type letter struct {
	id   string
	mail Mail
	done chan error
}

var (
	errSeen          = errors.New("message is in the mailbox")
	errUnknownFiring = errors.New("retraction of a firing that is not in the mailbox")
)

// retracted is the suffix of a retraction's ID, after the ID of its firing.
const retracted = "-retracted"

// lettersMax is the largest number of mails that one fsync covers.
const lettersMax = 64

// openMailbox opens the file and reads the IDs in it. It removes an incomplete last line: a killed receiver
// has not acknowledged that message.
func openMailbox(path string) (*mailbox, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	b := &mailbox{letters: make(chan *letter, lettersMax), file: f, seen: map[string]bool{}}
	end := int64(0)
	for r := bufio.NewReader(f); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		var s Sent
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("%s: at byte %d: %w", path, end, err)
		}
		b.seen[s.ID] = true
		end += int64(len(line))
	}
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		return nil, err
	}
	go b.run()
	return b, nil
}

// keep returns nil after the mail is on disk, errSeen if its ID is in the mailbox, or errUnknownFiring. It may
// be called concurrently.
func (b *mailbox) keep(id string, m Mail) error {
	l := &letter{id, m, make(chan error, 1)}
	b.letters <- l
	return <-l.done
}

// run writes all waiting mails with one fsync.
func (b *mailbox) run() {
	for first := range b.letters {
		list := []*letter{first}
		for more := true; more && len(list) < lettersMax; {
			select {
			case l := <-b.letters:
				list = append(list, l)
			default:
				more = false
			}
		}
		b.write(list)
	}
}

func (b *mailbox) write(list []*letter) {
	var text bytes.Buffer
	answers := make([]error, len(list))
	for i, l := range list {
		if b.seen[l.id] {
			answers[i] = errSeen
			continue
		}
		// Seb sends a retraction if it tried to send the firing, which may not have arrived.
		if first, back := strings.CutSuffix(l.id, retracted); back && !b.seen[first] {
			answers[i] = errUnknownFiring
			continue
		}
		b.seen[l.id] = true // also for duplicates in this list
		answers[i] = json.NewEncoder(&text).Encode(Sent{ID: l.id, At: time.Now().UTC(), Mail: l.mail})
	}
	_, err := b.file.Write(text.Bytes())
	if err == nil {
		err = b.file.Sync()
	}
	for i, l := range list {
		if err != nil {
			answers[i] = err
		}
		l.done <- answers[i]
	}
}
