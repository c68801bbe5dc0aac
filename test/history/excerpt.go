package history

import (
	"encoding/json"
	"errors"
	"io"
	"os"
)

// excerptBefore and excerptAfter are the numbers of lines before and after a violation.
const excerptBefore, excerptAfter = 600, 60

// WriteExcerpt writes the lines of a history around a violation that are about its partition, and
// the notes among them, to a file.
func WriteExcerpt(to, history string, v Violation) error {
	in, err := os.Open(history)
	if err != nil {
		return err
	}
	defer in.Close()
	var list []Event
	ops, after := map[int64]bool{}, 0
	err = Scan(in, func(e *Event) error {
		if e.Do != "" && e.Part == v.Part {
			ops[e.Op] = true
		}
		if e.Note == "" && !ops[e.Op] {
			return nil
		}
		if list = append(list, *e); e.T > v.T {
			after++
		} else if over := len(list) - excerptBefore; over > 0 {
			list = list[over:]
		}
		if after == excerptAfter {
			return io.EOF
		}
		return nil
	})
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(out)
	for i := range list {
		err = errors.Join(err, lines.Encode(&list[i]))
	}
	return errors.Join(err, out.Close())
}
