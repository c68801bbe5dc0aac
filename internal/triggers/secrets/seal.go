package secrets

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The errors of Open and Rewrap. None contains a value.
var (
	// ErrNoKey: the ring does not have the key. A *NoKeyError names it.
	ErrNoKey = errors.New("secrets key missing")
	// ErrDamaged: the encrypted form was changed, or belongs to another trigger, member, URL or
	// bucket.
	ErrDamaged = errors.New("encrypted secrets cannot be decrypted: they were changed, or moved from another trigger, URL or bucket")
)

// NoKeyError names the missing key. It is ErrNoKey.
type NoKeyError struct{ Key KeyID }

func (e *NoKeyError) Error() string {
	return fmt.Sprintf("the secrets are encrypted with key %s, which this broker does not have (--secrets-key-file)", e.Key)
}

// Is matches ErrNoKey.
func (e *NoKeyError) Is(target error) bool { return target == ErrNoKey }

const (
	// ValuePrefix begins an encrypted value, wrapPrefix an encrypted data key.
	ValuePrefix = "sebsealed1:"
	wrapPrefix  = "sebkey1:"
	// Member is the member of a deliver section with the encrypted data key. A section with it is
	// encrypted.
	Member = "sealed_by"
	// GrowthMax bounds how much longer an encrypted deliver section is: a third of 16 headers of 4
	// KiB and 8 secrets, and 100 bytes each.
	GrowthMax = 32 << 10
)

// Place is the identity of a definition. Encrypted values are bound to it.
type Place struct{ Cluster, Trigger string }

// values are the members of a deliver section that are encrypted, and those that they are bound to.
type values struct {
	URL     string            `json:"url"`
	Secrets []string          `json:"secrets"`
	Headers map[string]string `json:"headers"`
	Wrap    *string           `json:"sealed_by"`
}

func parse(deliver []byte) (v values, err error) {
	if len(deliver) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(deliver, &v); err != nil {
		return v, errors.New("deliver is not an object with secrets and headers") // err may contain a value
	}
	return v, nil
}

// each calls f with each value and the name of its member, and replaces the value.
func (v *values) each(f func(member, value string) (string, error)) (err error) {
	for i := range v.Secrets {
		if v.Secrets[i], err = f("secrets/"+strconv.Itoa(i), v.Secrets[i]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Headers)) {
		if v.Headers[name], err = f("headers/"+name, v.Headers[name]); err != nil {
			return err
		}
	}
	return nil
}

// Status is the state of the values in a deliver section. The zero Status has none.
type Status struct {
	Sealed   bool  // encrypted
	Readable bool  // a value is not encrypted
	Key      KeyID // of the encryption; zero if it cannot be parsed
}

// Inspect returns the status of a stored deliver section; that of an invalid one is zero.
func Inspect(deliver []byte) (s Status) {
	v, err := parse(deliver)
	if err != nil {
		return Status{}
	}
	_ = v.each(func(_, value string) (string, error) {
		s.Readable = s.Readable || v.Wrap == nil || !strings.HasPrefix(value, ValuePrefix)
		return value, nil
	})
	if v.Wrap != nil {
		s.Sealed = true
		s.Key, _, _ = parseWrap(*v.Wrap)
	}
	return s
}

// Same reports whether two deliver sections have the same values and URL.
func Same(a, b []byte) bool {
	x, err := parse(a)
	y, err2 := parse(b)
	return err == nil && err2 == nil && x.URL == y.URL && slices.Equal(x.Secrets, y.Secrets) && maps.Equal(x.Headers, y.Headers)
}

// Seal returns a deliver section with encrypted values, for a section that has values and is not
// encrypted.
func (r *Ring) Seal(p Place, deliver []byte) ([]byte, error) {
	v, err := parse(deliver)
	if err != nil {
		return nil, err
	}
	if v.Wrap != nil {
		return nil, errors.New("deliver is already encrypted")
	}
	data := make([]byte, keyBytes)
	_, _ = rand.Read(data) // never returns an error: it ends the process instead
	aead := newAEAD(data)
	_ = v.each(func(member, value string) (string, error) {
		return ValuePrefix + encoded(aead.Seal(nil, nil, []byte(value), p.bind("value", v.URL, member))), nil
	})
	return replaced(deliver, &v, r.wrap(p, data))
}

func (r *Ring) wrap(p Place, data []byte) *string {
	k := r.keys[0]
	text := wrapPrefix + k.id.String() + ":" + encoded(k.aead.Seal(nil, nil, data, p.bind("key", k.id.String())))
	return &text
}

// Open returns a deliver section with readable values. A section that is not encrypted is returned
// as it is. Errors: a *NoKeyError, ErrDamaged.
func (r *Ring) Open(p Place, deliver []byte) ([]byte, error) {
	v, err := parse(deliver)
	if err != nil || v.Wrap == nil {
		return deliver, nil
	}
	data, err := r.unwrap(p, *v.Wrap)
	if err != nil {
		return nil, err
	}
	aead := newAEAD(data)
	err = v.each(func(member, value string) (string, error) {
		text, sealed := strings.CutPrefix(value, ValuePrefix)
		b, err := decoded(text)
		if !sealed || err != nil {
			return "", ErrDamaged
		}
		if b, err = aead.Open(nil, nil, b, p.bind("value", v.URL, member)); err != nil {
			return "", ErrDamaged
		}
		return string(b), nil
	})
	if err != nil {
		return nil, err
	}
	return replaced(deliver, &v, nil)
}

// Rewrap returns a deliver section whose data key is encrypted with the active key. The values do
// not change. Errors: those of Open.
func (r *Ring) Rewrap(p Place, deliver []byte) ([]byte, error) {
	if _, err := r.Open(p, deliver); err != nil {
		return nil, err
	}
	v, err := parse(deliver)
	if err != nil || v.Wrap == nil {
		return deliver, nil
	}
	data, err := r.unwrap(p, *v.Wrap)
	if err != nil {
		return nil, err
	}
	return replaced(deliver, &v, r.wrap(p, data))
}

// signingName is the kind of a signing key in its additional data. It belongs to no trigger.
const signingName = "signing key"

// NewSigningKey returns a random key of a cluster, and its encrypted form.
func (r *Ring) NewSigningKey(cluster string) (key []byte, sealed string) {
	key = make([]byte, keyBytes)
	_, _ = rand.Read(key) // never returns an error: it ends the process instead
	return key, r.sealSigningKey(cluster, key)
}

// OpenSigningKey decrypts a key of NewSigningKey. Errors: a *NoKeyError, ErrDamaged.
func (r *Ring) OpenSigningKey(cluster, sealed string) ([]byte, error) {
	return r.opened(sealed, &Place{Cluster: cluster}, signingName)
}

// RewrapSigningKey encrypts a key of NewSigningKey with the active key. sealed is returned as it is if that
// has encrypted it. Errors: those of OpenSigningKey.
func (r *Ring) RewrapSigningKey(cluster, sealed string) (string, error) {
	id, err := SigningKeyOf(sealed)
	if err != nil || id == r.Active() {
		return sealed, err
	}
	key, err := r.OpenSigningKey(cluster, sealed)
	if err != nil {
		return "", err
	}
	return r.sealSigningKey(cluster, key), nil
}

// SigningKeyOf returns the key with which a signing key is encrypted. Error: ErrDamaged.
func SigningKeyOf(sealed string) (KeyID, error) {
	id, _, err := parseWrap(sealed)
	return id, err
}

func (r *Ring) sealSigningKey(cluster string, key []byte) string {
	k, p := r.keys[0], Place{Cluster: cluster}
	return wrapPrefix + k.id.String() + ":" + encoded(k.aead.Seal(nil, nil, key, p.bind(signingName, k.id.String())))
}

// unwrap returns the data key.
func (r *Ring) unwrap(p Place, text string) ([]byte, error) { return r.opened(text, &p, "key") }

// opened decrypts a key that is bound to a place as a kind.
func (r *Ring) opened(text string, p *Place, kind string) ([]byte, error) {
	id, b, err := parseWrap(text)
	if err != nil {
		return nil, err
	}
	k := r.find(id)
	if k == nil {
		return nil, &NoKeyError{id}
	}
	data, err := k.aead.Open(nil, nil, b, p.bind(kind, id.String()))
	if err != nil || len(data) != keyBytes {
		return nil, ErrDamaged
	}
	return data, nil
}

// parseWrap parses an encrypted data key: sebkey1:ID:BASE64.
func parseWrap(text string) (id KeyID, data []byte, err error) {
	text, ok := strings.CutPrefix(text, wrapPrefix)
	digits, body, found := strings.Cut(text, ":")
	b, hexErr := hex.DecodeString(digits)
	data, err = decoded(body)
	if !ok || !found || hexErr != nil || err != nil || len(b) != len(id) || hex.EncodeToString(b) != digits {
		return KeyID{}, nil, ErrDamaged
	}
	copy(id[:], b)
	return id, data, nil
}

// bind returns additional data: each part with its length, so that no two lists are equal.
func (p *Place) bind(parts ...string) (b []byte) {
	for _, s := range append([]string{"seb", p.Cluster, p.Trigger}, parts...) {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	return b
}

// written are the members that replaced writes.
var written = []string{"secrets", "headers", Member}

// replaced returns deliver with other values. Like encoding/json it ignores the case of members; it
// keeps their order, because the last one of a name counts.
func replaced(deliver []byte, v *values, wrap *string) ([]byte, error) {
	in := json.NewDecoder(bytes.NewReader(deliver))
	out := []byte{'{'}
	add := func(name string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		quoted, _ := json.Marshal(name) // a text: cannot fail
		out = append(append(append(out, quoted...), ':'), value...)
	}
	if _, err := in.Token(); err != nil {
		return nil, err
	}
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := in.Decode(&value); err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if !slices.ContainsFunc(written, func(member string) bool { return strings.EqualFold(text, member) }) {
			add(text, value)
		}
	}
	for _, m := range []struct {
		name  string
		value any
		none  bool
	}{{"secrets", v.Secrets, v.Secrets == nil}, {"headers", v.Headers, v.Headers == nil}, {Member, wrap, wrap == nil}} {
		if text, err := json.Marshal(m.value); err != nil {
			return nil, err
		} else if !m.none {
			add(m.name, text)
		}
	}
	return append(out, '}'), nil
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decoded(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // the decoder ignores them
		return nil, ErrDamaged
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
