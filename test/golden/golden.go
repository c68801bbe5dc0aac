// Package golden keeps buckets of earlier commits, with the answers of their programs. Every later
// version must open them, give the same answers, and write to them.
package golden

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// objectMax bounds an object of an archive.
const objectMax = 16 << 20

// Pack writes all objects of a store as a tar.gz, by name.
func Pack(ctx context.Context, store objstore.Store, w io.Writer) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	files := tar.NewWriter(zip)
	err = eachObject(ctx, store, func(key string, data []byte) error {
		if err := files.WriteHeader(&tar.Header{Name: key, Size: int64(len(data)), Mode: 0o600}); err != nil {
			return err
		}
		_, err := files.Write(data)
		return err
	})
	return errors.Join(err, files.Close(), zip.Close())
}

// Unpack puts the objects of an archive that Pack wrote into a store.
func Unpack(ctx context.Context, r io.Reader, store objstore.Store) error {
	return eachFile(r, func(h *tar.Header, data []byte) error {
		return store.Put(ctx, h.Name, objstore.NewBody(data))
	})
}

func eachFile(r io.Reader, each func(h *tar.Header, data []byte) error) error {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	for files := tar.NewReader(zip); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack: %w", err)
		}
		data, err := io.ReadAll(io.LimitReader(files, objectMax))
		if err == nil {
			err = each(h, data)
		}
		if err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

// PackFiles writes the files of a disk bucket as a tar.gz, with its journals as they are.
func PackFiles(bucket string, w io.Writer) error {
	zip, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	files := tar.NewWriter(zip)
	return errors.Join(files.AddFS(os.DirFS(bucket)), files.Close(), zip.Close())
}

// UnpackFiles creates the files of an archive that PackFiles wrote in a new folder.
func UnpackFiles(r io.Reader, bucket string) error {
	return eachFile(r, func(h *tar.Header, data []byte) error {
		name := filepath.Join(bucket, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			return os.MkdirAll(name, 0o700)
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		return os.WriteFile(name, data, 0o600)
	})
}

func eachObject(ctx context.Context, store objstore.Store, each func(key string, data []byte) error) error {
	for o := (objstore.ListOptions{}); ; {
		entries, more, err := store.List(ctx, o)
		if err != nil {
			return err
		}
		for _, e := range entries {
			o.After = e.Key
			object, err := store.Get(ctx, e.Key, objstore.Whole)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(object.Body)
			if err = errors.Join(err, object.Body.Close()); err != nil {
				return err
			}
			if err := each(e.Key, data); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// Caller sends requests to a broker over HTTP.
type Caller struct{ Address, APIKey string }

// Call sends a request with further headers, given as alternating names and values. It returns the
// body of a 2xx answer.
func (c Caller) Call(ctx context.Context, method, path, body string, headers ...string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Address+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, err
}

// Expectation maps paths to a broker's answers: JSON, or lines of JSON as text.
type Expectation map[string]string

// timeless returns a list of a queue's messages without their states, which depend on the time.
func timeless(text string) (string, error) {
	var list api.QueueMessages
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return "", err
	}
	for i := range list.Messages {
		list.Messages[i].State = ""
	}
	out, err := json.Marshal(list)
	return string(out), err
}

// observeTransactions requests the transactions, without their ages, and the records that are not committed.
func observeTransactions(seen Expectation, get func(path string, headers ...string) error) error {
	const path = "/transactions"
	if err := get(path); err != nil {
		return err
	}
	var list api.Transactions
	if err := json.Unmarshal([]byte(seen[path]), &list); err != nil {
		return err
	}
	if len(list.Transactions) == 0 { // as in buckets of level 9 and below
		delete(seen, path)
		return nil
	}
	for i := range list.Transactions {
		list.Transactions[i].AgeSeconds = 0
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	seen[path] = string(text)
	return get("/records?topic-name=stamped&partition=0&offset=0&max-records=100000&isolation=uncommitted", "Accept", api.NDJSON)
}

// Observe requests everything that a bucket must keep: topics, records, groups, newest values,
// triggers, firings, tokens, rules, quotas, messages of queues and transactions.
func Observe(ctx context.Context, c Caller) (seen Expectation, err error) {
	seen = Expectation{}
	get := func(path string, headers ...string) error {
		answer, err := c.Call(ctx, http.MethodGet, path, "", headers...)
		seen[path] = string(answer)
		return err
	}
	for _, path := range []string{"/topics", "/groups", "/triggers", "/firings", "/tokens", "/acls", "/quotas"} {
		if err := get(path); err != nil {
			return nil, err
		}
	}
	var tokens api.Tokens
	if err := json.Unmarshal([]byte(seen["/tokens"]), &tokens); err != nil {
		return nil, err
	}
	var quotas api.Quotas
	if err := json.Unmarshal([]byte(seen["/quotas"]), &quotas); err != nil {
		return nil, err
	}
	if len(quotas.Quotas) == 0 { // as in buckets of level 3 and below
		delete(seen, "/quotas")
	}
	if len(tokens.Tokens) == 0 { // as in buckets of level 2 and below
		delete(seen, "/tokens")
		delete(seen, "/acls")
	}
	if err := observeTransactions(seen, get); err != nil {
		return nil, err
	}
	var list api.Topics
	if err := json.Unmarshal([]byte(seen["/topics"]), &list); err != nil {
		return nil, err
	}
	for i := range list.Topics {
		t := &list.Topics[i]
		name := url.QueryEscape(t.Name)
		for _, p := range t.Partitions {
			path := fmt.Sprintf("/records?topic-name=%s&partition=%d&offset=%d&max-records=100000", name, p.Partition, p.Start)
			if p.Next > p.Start {
				if err := get(path, "Accept", api.NDJSON); err != nil {
					return nil, err
				}
			}
		}
		if t.Settings["queue"] != "" {
			path := "/queues/" + name + "/messages?limit=1000"
			if err := get(path); err != nil {
				return nil, err
			}
			if seen[path], err = timeless(seen[path]); err != nil {
				return nil, err
			}
		}
		if t.Settings["cleanup-policy"] == "compact" {
			if err := get("/keys?read=latest&topic-name=" + name); err != nil {
				return nil, err
			}
		}
	}
	return seen, nil
}
