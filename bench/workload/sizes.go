package workload

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Sizes is the distribution of message sizes, including the header.
type Sizes struct {
	parts []sizePart
	total int // of the weights
}

// sizePart is a uniform distribution of sizes from min to max bytes.
type sizePart struct{ min, max, weight int }

// FixedSize returns the distribution of a single size.
func FixedSize(bytes int) Sizes {
	return Sizes{parts: []sizePart{{bytes, bytes, 1}}, total: 1}
}

// sizePartsMax limits the cost of drawing a size.
const sizePartsMax = 64

// weightMax is the highest weight of a part.
const weightMax = 1_000_000

// ParseSizes parses a size (1KiB), a range (256B..4KiB), or several of them with weights
// (256B:90,1MiB:10).
func ParseSizes(s string) (Sizes, error) {
	var z Sizes
	list := strings.Split(s, ",")
	if len(list) > sizePartsMax {
		return Sizes{}, fmt.Errorf("size %q: has %d parts, the limit is %d", s, len(list), sizePartsMax)
	}
	for _, part := range list {
		size, weight, weighted := strings.Cut(part, ":")
		low, high, ranged := strings.Cut(size, "..")
		if !ranged {
			high = low
		}
		p := sizePart{weight: 1}
		var err error
		if p.min, err = parseBytes(low); err != nil {
			return Sizes{}, fmt.Errorf("size %q: %w", s, err)
		}
		if p.max, err = parseBytes(high); err != nil {
			return Sizes{}, fmt.Errorf("size %q: %w", s, err)
		}
		if weighted {
			if p.weight, err = strconv.Atoi(weight); err != nil || p.weight < 1 || p.weight > weightMax {
				return Sizes{}, fmt.Errorf("size %q: weight %q: want 1 to %d", s, weight, weightMax)
			}
		}
		if p.min > p.max {
			return Sizes{}, fmt.Errorf("size %q: %s is more than %s", s, low, high)
		}
		z.parts = append(z.parts, p)
		z.total += p.weight
	}
	return z, nil
}

// units are the units of sizes, the longest names first.
var units = []struct {
	name  string
	bytes int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"KB", 1000}, {"MB", 1_000_000}, {"B", 1}, {"", 1}}

// SizeMax is the largest message size.
const SizeMax = 64 << 20

func parseBytes(s string) (int, error) {
	s = strings.TrimSpace(s)
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > SizeMax/u.bytes {
			break
		}
		return n * u.bytes, nil
	}
	return 0, fmt.Errorf("%q: want 1 to %d bytes with B, KB, KiB, MB or MiB", s, SizeMax)
}

func formatBytes(n int) string {
	for _, u := range []struct {
		name  string
		bytes int
	}{{"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n%u.bytes == 0 {
			return strconv.Itoa(n/u.bytes) + u.name
		}
	}
	return strconv.Itoa(n) + "B"
}

// String returns the sizes in the form of ParseSizes.
func (z Sizes) String() string {
	var list []string
	for _, p := range z.parts {
		s := formatBytes(p.min)
		if p.max != p.min {
			s += ".." + formatBytes(p.max)
		}
		if len(z.parts) > 1 {
			s += ":" + strconv.Itoa(p.weight)
		}
		list = append(list, s)
	}
	return strings.Join(list, ",")
}

// MarshalText implements encoding.TextMarshaler.
func (z Sizes) MarshalText() ([]byte, error) { return []byte(z.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseSizes.
func (z *Sizes) UnmarshalText(text []byte) error {
	sizes, err := ParseSizes(string(text))
	if err == nil {
		*z = sizes
	}
	return err
}

// Draw returns a random message size. It uses no random number if there is only one size.
func (z *Sizes) Draw(rng *rand.Rand) int {
	p := z.parts[0]
	if len(z.parts) > 1 {
		n := rng.IntN(z.total)
		for i := 0; n >= 0; i++ {
			p = z.parts[i]
			n -= p.weight
		}
	}
	if p.min == p.max {
		return p.min
	}
	return p.min + rng.IntN(p.max-p.min+1)
}

// Max returns the largest size in bytes.
func (z Sizes) Max() int {
	n := 0
	for _, p := range z.parts {
		n = max(n, p.max)
	}
	return n
}

// Min returns the smallest size in bytes; 0 if there are none.
func (z Sizes) Min() int {
	if len(z.parts) == 0 {
		return 0
	}
	n := z.parts[0].min
	for _, p := range z.parts {
		n = min(n, p.min)
	}
	return n
}

// Mean returns the mean size in bytes.
func (z Sizes) Mean() float64 {
	var sum float64
	for _, p := range z.parts {
		sum += float64(p.min+p.max) / 2 * float64(p.weight)
	}
	return sum / float64(max(z.total, 1))
}
