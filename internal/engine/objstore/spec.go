package objstore

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Kind is a kind of store.
type Kind string

// The kinds of stores.
const (
	KindDisk   Kind = "disk"
	KindMemory Kind = "memory"
	KindS3     Kind = "s3"
)

// Spec is a parsed store address: see ParseSpec.
type Spec struct {
	Kind Kind
	Dir  string      // of a disk store
	Disk DiskOptions // of a disk store
	S3   S3Options   // of an S3 store, without keys
}

// ParseSpec parses a store address:
//
//	./dir  ../dir  /dir  file:dir  file:///dir     a folder; ?fsync=false &journal=false
//	mem:                                           memory
//	s3://bucket/prefix                             ?endpoint= &region= &path-style=true &checksum=false
//	                                               &sse=AES256 or &sse=aws:kms&kms-key=
//
// Anything else, and any other parameter, is an error that names it. Errors contain no values of
// parameters and nothing before an @. Keys do not belong into a spec, and an error must not print
// them if they are there by mistake.
func ParseSpec(spec string) (Spec, error) {
	address, query, _ := strings.Cut(spec, "?")
	parameters, err := parseParameters(query)
	if err != nil {
		return Spec{}, fmt.Errorf("bucket %q: %w", masked(address), err)
	}
	var s Spec
	switch {
	case address == "mem:":
		s.Kind = KindMemory
	case strings.HasPrefix(address, "s3://"):
		s, err = parseS3(address, parameters)
	case strings.HasPrefix(address, "file:"):
		dir := strings.TrimPrefix(address, "file:")
		if rest, isURL := strings.CutPrefix(dir, "//"); isURL {
			dir = rest
			if !strings.HasPrefix(dir, "/") {
				return Spec{}, fmt.Errorf("bucket %q: want file:dir or file:///dir", masked(address))
			}
		}
		s, err = parseDisk(dir, parameters)
	case isPath(address):
		s, err = parseDisk(address, parameters)
	default:
		return Spec{}, fmt.Errorf("bucket %q: want ./dir, /dir, file:dir, mem: or s3://bucket/prefix", masked(address))
	}
	if err == nil {
		err = parameters.unknown()
	}
	if err != nil {
		return Spec{}, fmt.Errorf("bucket %q: %w", masked(address), err)
	}
	return s, nil
}

// masked removes a possible user and password from an address.
func masked(address string) string {
	if i := strings.LastIndexByte(address, '@'); i >= 0 {
		return "***" + address[i:]
	}
	return address
}

func isPath(s string) bool {
	return s == "." || s == ".." || strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../")
}

func parseDisk(dir string, p parameters) (Spec, error) {
	if dir == "" {
		return Spec{}, errors.New("folder name is empty")
	}
	if p["sse"] != "" || p["kms-key"] != "" {
		return Spec{}, errors.New("sse and kms-key: only of s3:// buckets; put a folder on an encrypted file system")
	}
	sync, syncErr := p.flag("fsync", true)
	journal, journalErr := p.flag("journal", true)
	o := DiskOptions{NoSync: !sync, NoJournal: !journal}
	return Spec{Kind: KindDisk, Dir: dir, Disk: o}, errors.Join(syncErr, journalErr)
}

func parseS3(address string, p parameters) (Spec, error) {
	bucket, prefix, _ := strings.Cut(strings.TrimPrefix(address, "s3://"), "/")
	pathStyle, styleErr := p.flag("path-style", false)
	checksum, sumErr := p.flag("checksum", true)
	o := S3Options{
		Bucket: bucket, Prefix: strings.Trim(prefix, "/"), Endpoint: p.take("endpoint"), Region: p.take("region"),
		PathStyle: pathStyle, NoChecksum: !checksum, Encryption: p.take("sse"), KMSKey: p.take("kms-key"),
	}
	return Spec{Kind: KindS3, S3: o}, errors.Join(styleErr, sumErr, o.Validate())
}

// Unwrapper is implemented by stores that wrap another.
type Unwrapper interface {
	// Unwrap returns the store below.
	Unwrap() Store
}

// As finds the first store of type T, or that implements the interface T, in s and what it wraps.
func As[T any](s Store) (found T, ok bool) {
	for s != nil {
		if found, ok = s.(T); ok {
			return found, true
		}
		wrapper, wraps := s.(Unwrapper)
		if !wraps {
			break
		}
		s = wrapper.Unwrap()
	}
	return found, false
}

// IsLocal reports whether reads of a store, below all its wrappers, cost no request, so that a cache
// in front of it is useless.
func IsLocal(s Store) bool {
	_, disk := As[*Disk](s)
	_, memory := As[*Memory](s)
	return disk || memory
}

// parameters are the parameters of a spec that were not taken yet.
type parameters map[string]string

func parseParameters(query string) (parameters, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	p := parameters{}
	for name, all := range values {
		if len(all) != 1 {
			return nil, fmt.Errorf("parameter %q is given %d times", name, len(all))
		}
		p[name] = all[0]
	}
	return p, nil
}

func (p parameters) take(name string) string {
	value := p[name]
	delete(p, name)
	return value
}

func (p parameters) flag(name string, defaultValue bool) (bool, error) {
	if _, given := p[name]; !given {
		return defaultValue, nil
	}
	text := p.take(name)
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("parameter %s=%q: want true or false", name, text)
	}
	return value, nil
}

func (p parameters) unknown() error {
	var names []string
	for name := range p {
		names = append(names, strconv.Quote(name))
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("unknown parameter %s", strings.Join(names, ", "))
}
