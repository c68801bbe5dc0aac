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

// mailbox is a file to which mails are appended, each with the ID of its message. Mail and ID are one line, so that one is never
// there without the other; in a database they would be one transaction.
type mailbox struct {
	letters chan *letter

	// The writer's.
	file *os.File
	seen map[string]bool // IDs
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
	errSeen    = errors.New("it was sent already")
	errUnheard = errors.New("it takes back what was never sent")
)

// retracted is what the ID of a message has behind that of the one that it takes back.
const retracted = "-retracted"

// lettersMax is how many mails are written, and synced, at once.
const lettersMax = 64

// openMailbox reads what was sent before. A process that was killed may have left a part of a line: nobody was told that this
// one was kept, and it goes.
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

// keep returns once the mail is on disk, errSeen if it was there already, or errUnheard. It may be called concurrently.
func (b *mailbox) keep(id string, m Mail) error {
	l := &letter{id, m, make(chan error, 1)}
	b.letters <- l
	return <-l.done
}

// run writes all that has come in the meantime with one fsync.
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
		// Seb has tried to send the first message, and could not know that it never came.
		if first, back := strings.CutSuffix(l.id, retracted); back && !b.seen[first] {
			answers[i] = errUnheard
			continue
		}
		b.seen[l.id] = true // in this list too
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
