package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// fileMax is the largest file that is read.
const fileMax = 1 << 30

// ErrSchema means that a file has a schema that this program does not read.
var ErrSchema = errors.New("unknown form of a result")

// Write writes a file atomically.
func (f *File) Write(path string) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	defer os.Remove(tmp.Name()) // already renamed on success
	err = f.encode(tmp)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func (f *File) encode(w io.Writer) error {
	f.Schema = Schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(f)
}

// Read reads a file that Write wrote. The error is ErrSchema if its schema differs.
func Read(path string) (*File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, fileMax+1))
	if err == nil && len(text) > fileMax {
		err = fmt.Errorf("it is larger than %d bytes", fileMax)
	}
	var f *File
	if err == nil {
		f, err = Parse(text)
	}
	if err != nil {
		return nil, fmt.Errorf("read result %s: %w", path, err)
	}
	return f, nil
}

// Parse decodes the text of a file.
func Parse(text []byte) (*File, error) {
	var form struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		return nil, err
	}
	if form.Schema != Schema {
		return nil, fmt.Errorf("%w: schema %d, this program reads %d", ErrSchema, form.Schema, Schema)
	}
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, err
	}
	return &f, nil
}
