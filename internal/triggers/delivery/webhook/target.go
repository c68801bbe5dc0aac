package webhook

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sebbroker/seb/internal/triggers/delivery/template"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/webhook"
)

// Limits of a Config.
const (
	URLBytesMax         = 2048
	HeadersMax          = 16
	HeaderNameBytesMax  = 64
	HeaderValueBytesMax = 4096
)

// Config is the webhook of a trigger, as its author wrote it. Printing it shows neither secrets nor
// header values. The URL may contain a secret, so it must not be logged.
type Config struct {
	URL string `json:"url,omitempty"`
	// Headers are sent with every message, such as Authorization. Headers of the protocol and the
	// signature cannot be set.
	Headers map[string]secrets.Text `json:"headers,omitempty"`
	// Secrets sign every message: at least one, and more while secrets are rotated.
	Secrets []webhook.Secret `json:"secrets,omitempty"`
	// Template renders the body; "" means the JSON of Firing.
	Template string `json:"template,omitempty"`
	// ContentType is that of the Template's output; "" means application/json. For JSON, HTML, XML
	// and forms, strings in the output are escaped.
	ContentType string `json:"content_type,omitempty"`
}

// Target is a validated Config. It may be used concurrently.
type Target struct {
	body
	url     string
	header  http.Header // of every request, without the signature
	secrets []webhook.Secret
}

// body makes the bodies of messages.
type body struct {
	template    *template.Template // nil: the default body
	contentType string
}

// Parse validates a Config and reports all faults at once, each with the name of its field. events
// are the event names of the trigger's expression, which a template may use in .Witness. nil skips
// that check, for a trigger that was validated when it was created.
func Parse(c Config, p Policy, events []string) (*Target, error) {
	t := &Target{}
	var faults []error
	fault := func(field string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", field, err))
		}
	}
	var err error
	t.url, err = checkURL(c.URL, p)
	fault("url", err)
	t.header, err = checkHeaders(c.Headers)
	fault("headers", err)
	t.secrets = slices.Clone(c.Secrets)
	if n := len(c.Secrets); n < 1 || n > webhook.SecretsMax || slices.ContainsFunc(c.Secrets, webhook.Secret.IsZero) {
		fault("secrets", fmt.Errorf("want 1 to %d, none of them empty, got %d", webhook.SecretsMax, n))
	}
	t.body = c.body(events, fault)
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	t.header.Set("Content-Type", t.contentType)
	return t, nil
}

// body validates the template, and reports the faults of fields.
func (c *Config) body(events []string, fault func(field string, err error)) (b body) {
	b.contentType = template.TypeJSON
	if c.Template == "" {
		if c.ContentType != "" {
			fault("content_type", errors.New("requires a template: the default body is "+template.TypeJSON))
		}
		return b
	}
	var err error
	if c.ContentType != "" {
		b.contentType, err = checkContentType(c.ContentType)
		fault("content_type", err)
	}
	b.template, err = template.ParseTemplate(c.Template, b.contentType, events)
	fault("template", err)
	return b
}

// Body builds the body of a message. An error is permanent: the result depends only on the message.
func (b *body) Body(m *template.Message) ([]byte, error) {
	if b.template != nil {
		return b.template.Execute(m)
	}
	return template.Default(m)
}

// checkURL keeps the URL out of its errors, because every part may be a secret.
func checkURL(text string, p Policy) (string, error) {
	if text == "" || len(text) > URLBytesMax {
		return "", fmt.Errorf("%d bytes, want 1 to %d", len(text), URLBytesMax)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("contains a space, a control character or a non-ASCII character: use punycode for names and escape the rest")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", errors.New("cannot be parsed, want https://host/path")
	case u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("want https:// or http://")
	case u.Opaque != "" || u.Hostname() == "":
		return "", errors.New("has no host, want https://host/path")
	case u.User != nil:
		return "", errors.New("has a user: use an Authorization header")
	case strings.Contains(text, "#"):
		return "", errors.New("has a fragment, which is not sent")
	case strings.HasSuffix(u.Host, ":"):
		return "", errors.New("has a colon without a port")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", errors.New("port: want 1 to 65535")
		}
	}
	return u.String(), checkHost(u.Hostname(), p)
}

// checkHost refuses literal addresses and localhost before anything is sent. Other names are
// checked when connecting, because only then their address is known, including notations such as
// 0x7f.1.
func checkHost(host string, p Policy) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	addr, err := netip.ParseAddr(name)
	switch {
	case err == nil:
	case name == "localhost" || strings.HasSuffix(name, ".localhost"):
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		return nil
	}
	if err := p.Check(addr); err != nil {
		return fmt.Errorf("host refused: %w", err)
	}
	return nil
}

// ownHeaders are set by the sender or by net/http, or are hop-by-hop headers.
var ownHeaders = []string{
	"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Expect", "Host", "Keep-Alive",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

var ownPrefixes = []string{"Webhook-", "Proxy-"}

func checkHeaders(headers map[string]secrets.Text) (http.Header, error) {
	if len(headers) > HeadersMax {
		return nil, fmt.Errorf("%d headers, limit %d", len(headers), HeadersMax)
	}
	h := make(http.Header)
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name].Reveal()
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case len(name) > HeaderNameBytesMax || !isToken(name):
			faults = append(faults, fmt.Errorf("name %.64q: want 1 to %d letters, digits and hyphens", name, HeaderNameBytesMax))
		case slices.Contains(ownHeaders, canonical) ||
			slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(canonical, p) }):
			faults = append(faults, fmt.Errorf("%s cannot be set", canonical))
		case h[canonical] != nil:
			faults = append(faults, fmt.Errorf("duplicate header %s", canonical))
		case value == headers[name].String() && value != "":
			faults = append(faults, fmt.Errorf("the value of %s is masked: want the value itself", canonical))
		case len(value) > HeaderValueBytesMax || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			faults = append(faults, fmt.Errorf("value of %s: want at most %d printable ASCII characters", canonical, HeaderValueBytesMax))
		default:
			h.Set(canonical, value)
		}
	}
	return h, errors.Join(faults...)
}

// isToken is narrower than the HTTP grammar, because servers interpret some characters differently:
// many treat an underscore as a hyphen.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}

const contentTypeMax = 128

func checkContentType(text string) (string, error) {
	kind, params, err := mime.ParseMediaType(text)
	if err != nil || len(text) > contentTypeMax || !strings.Contains(kind, "/") {
		return "", fmt.Errorf("invalid media type %.128q, want one such as %s or text/plain; charset=utf-8", text, template.TypeJSON)
	}
	if set := params["charset"]; set != "" && !strings.EqualFold(set, "utf-8") {
		return "", fmt.Errorf("unsupported charset %.32q, want utf-8", set)
	}
	return mime.FormatMediaType(kind, params), nil
}

// AllowAll is the entry of a Policy's list that allows every address.
const AllowAll = "all"

const allowedMax = 256

// Policy decides which addresses messages may go to. The zero Policy allows those of the public
// Internet: no private, shared, loopback, link-local, multicast or reserved addresses, and no
// metadata services of clouds. It may be used concurrently.
type Policy struct {
	all     bool
	allowed []netip.Prefix
}

// ParsePolicy parses a list of addresses that are allowed in addition to the public Internet:
// prefixes such as "10.0.0.0/8", addresses, or "all". The error names every invalid entry.
func ParsePolicy(list []string) (Policy, error) {
	var p Policy
	var faults []error
	if len(list) > allowedMax {
		return Policy{}, fmt.Errorf("allowed targets: %d entries, limit %d", len(list), allowedMax)
	}
	for _, text := range list {
		text = strings.TrimSpace(text)
		if text == AllowAll {
			p.all = true
			continue
		}
		prefix, err := parsePrefix(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("allowed targets: invalid entry %.64q, want a prefix such as 10.0.0.0/8, an address or %s", text, AllowAll))
			continue
		}
		p.allowed = append(p.allowed, prefix)
	}
	if err := errors.Join(faults...); err != nil {
		return Policy{}, err
	}
	return p, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		p, err := netip.ParsePrefix(text)
		return p.Masked(), err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	if addr.Zone() != "" {
		return netip.Prefix{}, errors.New("address with a zone")
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

// RefusedError is an address that a Policy does not allow. It does not contain the address, because
// an author of triggers must not learn how names resolve inside the network.
type RefusedError struct {
	Class string // class of the address, with its prefix
}

// Error names the class, and the flag that allows it.
func (e *RefusedError) Error() string {
	return "address class " + e.Class + " is not among the targets that the operator of the broker allows (--webhook-targets)"
}

// special are the addresses outside the public Internet (IANA special-purpose registries), preceded
// by the metadata services of clouds, some of which are public addresses.
var special = []struct {
	class    string
	prefixes []netip.Prefix
}{
	{"a metadata service", prefixes("169.254.169.254/32", "168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32", "fd00:ec2::254/128")},
	{"unspecified", prefixes("0.0.0.0/8", "::/128")},
	{"loopback", prefixes("127.0.0.0/8", "::1/128")},
	{"private", prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")},
	{"shared address space", prefixes("100.64.0.0/10")},
	{"link-local", prefixes("169.254.0.0/16", "fe80::/10")},
	{"multicast", prefixes("224.0.0.0/4", "ff00::/8")},
	{"reserved", prefixes(
		"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	)},
}

var (
	// translated is NAT64's well-known prefix (RFC 6052); the last four bytes are the IPv4 address.
	translated = netip.MustParsePrefix("64:ff9b::/96")
	// global is the allocated part of IPv6; an address outside of it without a class above is
	// reserved.
	global = netip.MustParsePrefix("2000::/3")
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// Check returns nil or a *RefusedError. IPv4 addresses that are mapped or translated into IPv6 are
// checked as IPv4.
func (p Policy) Check(addr netip.Addr) error {
	if p.all {
		return nil
	}
	addr = addr.WithZone("").Unmap()
	if translated.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, allowed := range p.allowed {
		if allowed.Contains(addr) {
			return nil
		}
	}
	for _, s := range special {
		for _, prefix := range s.prefixes {
			if prefix.Contains(addr) {
				return &RefusedError{fmt.Sprintf("%s (%s)", s.class, prefix)}
			}
		}
	}
	if !addr.Is4() && !global.Contains(addr) {
		return &RefusedError{"reserved (outside of " + global.String() + ")"}
	}
	return nil
}

// control is the Control function of a net.Dialer. It checks the resolved address right before
// connecting, so a changed DNS answer cannot bypass the policy.
func (p Policy) control(network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return &RefusedError{"not TCP"}
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{"not an IP address"}
	}
	return p.Check(at.Addr())
}
