package webhook

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
)

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
	return "address class " + e.Class + " is not among the allowed targets (seb serve --webhook-targets)"
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
