package link

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/record"
)

// ErrDamaged: an object is not a valid registration, or not the one that its name says.
// It is record.ErrCorrupt too.
var ErrDamaged = fmt.Errorf("%w: not a valid registration", record.ErrCorrupt)

const (
	// Magic begins each registration.
	Magic = "seb&"
	// RegistrationMax bounds a registration in bytes.
	RegistrationMax = 4 << 10
	// AddressesMax bounds the addresses of a registration.
	AddressesMax = 16

	version  = 1
	headSize = 20
)

// Limits of the fields in bytes.
const (
	nameMax    = 255
	hostMax    = 280
	urlMax     = 512
	versionMax = 64
	folderMax  = 1024
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the object of a registration. An error names the field, its limit and its value.
func Encode(r *cluster.Registration) ([]byte, error) {
	if err := check(r); err != nil {
		return nil, fmt.Errorf("registration of %s: %w", r.Run, err)
	}
	b := protobuf.Append(make([]byte, headSize, 512), r, registrationFields)
	if len(b) > RegistrationMax {
		return nil, fmt.Errorf("registration of %s: %d bytes, at most %d are allowed", r.Run, len(b), RegistrationMax)
	}
	copy(b, Magic)
	binary.LittleEndian.PutUint16(b[4:], version)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(b)-headSize))
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[headSize:], castagnoli))
	binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
	return b, nil
}

// Decode reads the object of a registration. The result shares no memory with b. Errors are
// ErrDamaged.
func Decode(b []byte) (cluster.Registration, error) {
	body, err := registrationBody(b)
	var r cluster.Registration
	if err == nil {
		err = protobuf.Decode(body, &r, registrationFields)
	}
	if err == nil {
		err = check(&r)
	}
	if err != nil {
		return cluster.Registration{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return r, nil
}

// registrationBody checks the head and returns the message.
func registrationBody(b []byte) ([]byte, error) {
	switch {
	case len(b) > RegistrationMax:
		return nil, fmt.Errorf("more than %d bytes", RegistrationMax)
	case len(b) < headSize:
		return nil, fmt.Errorf("%d bytes, the head has %d", len(b), headSize)
	case string(b[:4]) != Magic:
		return nil, fmt.Errorf("begins with %q, want %q", b[:4], Magic)
	case crc32.Checksum(b[:16], castagnoli) != binary.LittleEndian.Uint32(b[16:]):
		return nil, errors.New("wrong checksum of the head")
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != version {
		return nil, fmt.Errorf("version %d, this program reads version %d", v, version)
	}
	body := b[headSize:]
	if n := binary.LittleEndian.Uint32(b[8:]); uint64(n) != uint64(len(body)) {
		return nil, fmt.Errorf("%d bytes behind the head, which says %d", len(body), n)
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return nil, errors.New("wrong checksum of the message")
	}
	return body, nil
}

// registrationFields lists the fields of the message, see FORMAT.md.
func registrationFields(r *cluster.Registration, c *protobuf.Codec) {
	c.SkipUnknown()
	c.Fixed(1, "node", r.Run.Node[:])
	c.Fixed(2, "run", r.Run.ID[:])
	c.String(3, "name", &r.Name)
	c.Strings(4, "address", &r.Addresses)
	c.String(5, "URL", &r.URL)
	c.String(6, "Kafka address", &r.Kafka)
	protobuf.Int(c, 7, "Kafka id", &r.KafkaID)
	c.Fixed(8, "key hash", r.KeyHash[:])
	c.String(9, "version", &r.Version)
	protobuf.Int(c, 10, "format level", &r.LevelMax)
	c.Bool(11, "read-only", &r.ReadOnly)
	c.Bool(12, "TLS", &r.Secure)
	c.Fixed(13, "machine", r.Machine[:])
	c.String(14, "local address", &r.Local)
	c.String(15, "folder", &r.Folder)
}

// check validates the fields of a registration.
func check(r *cluster.Registration) error {
	switch {
	case r.Run.Node.IsZero():
		return errors.New("node: missing")
	case r.Run.ID.IsZero():
		return errors.New("run: missing")
	case r.KeyHash == [32]byte{}:
		return errors.New("key hash: missing")
	case r.KafkaID < 1:
		return fmt.Errorf("node id %d for Kafka clients: want 1 or more", r.KafkaID)
	case r.LevelMax < 1:
		return errors.New("format level 0: want 1 or more")
	case len(r.Addresses) > AddressesMax:
		return fmt.Errorf("%d addresses, at most %d are allowed", len(r.Addresses), AddressesMax)
	}
	for _, a := range r.Addresses {
		if err := checkHostPort("address", a); err != nil {
			return err
		}
	}
	if r.Kafka != "" {
		if err := checkHostPort("Kafka address", r.Kafka); err != nil {
			return err
		}
	}
	if r.Local != "" {
		if err := checkHostPort("local address", r.Local); err != nil {
			return err
		}
	}
	return cmp.Or(checkText("name", r.Name, nameMax), checkText("version", r.Version, versionMax), CheckFolder(r.Folder), checkURL(r.URL))
}

// CheckFolder checks the data folder of a registration.
func CheckFolder(s string) error { return checkText("folder", s, folderMax) }

func checkText(name, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%s: %d bytes, at most %d are allowed", name, len(s), limit)
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return fmt.Errorf("%s %q: invalid character", name, s)
	}
	return nil
}

func checkHostPort(name, s string) error {
	if err := checkText(name, s, hostMax); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || host == "" || bad != nil || n == 0 {
		return fmt.Errorf("%s %q: want host:port", name, s)
	}
	return nil
}

func checkURL(s string) error {
	if s == "" {
		return nil
	}
	if err := checkText("URL", s, urlMax); err != nil {
		return err
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("URL %q: want http:// or https:// with a host and without a user", s)
	}
	return nil
}

// Key returns the name of a run's registration in the bucket.
func Key(run cluster.Run) string { return Prefix + run.Node.String() + "-" + run.ID.String() }

// ParseKey reads a name of Key; ok is false for any other name.
func ParseKey(key string) (run cluster.Run, ok bool) {
	name, found := strings.CutPrefix(key, Prefix)
	node, id, both := strings.Cut(name, "-")
	var err1, err2 error
	run.Node, err1 = record.ParseID(node)
	run.ID, err2 = record.ParseID(id)
	if !found || !both || err1 != nil || err2 != nil {
		return cluster.Run{}, false
	}
	return run, true
}
