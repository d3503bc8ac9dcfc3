package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Value reads and writes one field of a Config as text.
type Value interface {
	// Set parses text into the field. Its errors have the words of Redis's CONFIG SET.
	// Allowed has more for a person who edits a file.
	Set(text string) error
	// String returns the field in the form that Set accepts.
	String() string
	// Redis returns the field in the form of CONFIG GET: sizes in bytes, durations as a
	// number of the parameter's unit.
	Redis() string
	// Type returns the name of the kind of value, for the help text.
	Type() string
	// Allowed says which values Set accepts; an error shows it after the word "want".
	Allowed() string
}

// Errors of Set, in Redis's words.
var (
	errNotInteger        = errors.New("argument couldn't be parsed into an integer")
	errNotMemory         = errors.New("argument must be a memory value")
	errNotDuration       = errors.New("argument must be a duration")
	errNotYesNo          = errors.New("argument must be 'yes' or 'no'")
	errNotAddress        = errors.New("argument must be host:port")
	errNotNetworks       = errors.New("argument must be networks such as 10.0.0.0/8, separated by commas")
	errControl           = errors.New("argument must be without newlines and other control characters")
	errBlanks            = errors.New("argument must be without blanks at its ends")
	errNotName           = errors.New("argument must be a name without spaces")
	errNotCertNames      = errors.New("argument must be names of certificates, separated by commas")
	errNotAttributeNames = errors.New("argument must be names of attributes, separated by commas, or *")
	errNotOctal          = errors.New("argument couldn't be parsed as an octal file mode")
)

func rangeError(least, most int64) error {
	return fmt.Errorf("argument must be between %d and %d inclusive", least, most)
}

// text is any string.
type text struct{ p *string }

func (v text) Set(s string) error { *v.p = s; return nil }
func (v text) String() string     { return *v.p }
func (v text) Redis() string      { return *v.p }
func (v text) Type() string       { return "text" }
func (v text) Allowed() string    { return "text" }

// password is a text that clients must send exactly as it is written. It refuses control
// characters: if the newline at the end of a file became part of the password, nobody would
// know the password.
type password struct{ text }

func (v password) Set(s string) error {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return errControl
	}
	return v.text.Set(s)
}
func (v password) Allowed() string { return "text without newlines and other control characters" }

// token is a password that clients send in a header field. It refuses blanks at the ends,
// because header fields lose them.
type token struct{ password }

func (v token) Set(s string) error {
	if strings.TrimSpace(s) != s {
		return errBlanks
	}
	return v.password.Set(s)
}
func (v token) Allowed() string {
	return "text without control characters, and without blanks at its ends"
}

// file is the name of a file.
type file struct{ text }

func (v file) Type() string    { return "path" }
func (v file) Allowed() string { return "the path of a file" }

// directory is the name of a directory.
type directory struct{ text }

func (v directory) Type() string    { return "path" }
func (v directory) Allowed() string { return "the path of a directory" }

// name is the id of a node.
type name struct{ text }

func (v name) Set(s string) error {
	if s != "" && member.CheckNodeID(s) != nil {
		return errNotName
	}
	*v.p = s
	return nil
}
func (v name) Type() string { return "name" }
func (v name) Allowed() string {
	return fmt.Sprintf("up to %d printable ASCII characters without spaces, commas and =", member.MaxNodeID)
}

// address is host:port; "" means that the server does not listen.
type address struct{ text }

func (v address) Set(s string) error {
	if s != "" {
		host, port, err := net.SplitHostPort(s)
		if err != nil || strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return errNotAddress
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return errNotAddress
		}
	}
	*v.p = s
	return nil
}
func (v address) Type() string    { return "host:port" }
func (v address) Allowed() string { return `host:port with a port from 0 to 65535, or "" for none` }

// networks is a list of networks (CIDR) and addresses, separated by commas.
type networks struct{ p *[]netip.Prefix }

func (v networks) Set(s string) error {
	var list []netip.Prefix
	for n := range strings.SplitSeq(s, ",") {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		p, err := netip.ParsePrefix(n)
		if addr, notPrefix := netip.ParseAddr(n); notPrefix == nil && addr.Zone() == "" {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || p.Masked() != p || p.Addr().Is4In6() {
			return errNotNetworks
		}
		list = append(list, p)
	}
	*v.p = list
	return nil
}
func (v networks) String() string {
	var list []string
	for _, p := range *v.p {
		list = append(list, p.String())
	}
	return strings.Join(list, ",")
}
func (v networks) Redis() string { return v.String() }
func (v networks) Type() string  { return "cidr,…" }
func (v networks) Allowed() string {
	return "networks such as 10.0.0.0/8 without bits set after the prefix, or addresses, separated by commas"
}

// addresses is a list of host:port, separated by commas.
type addresses struct{ p *[]string }

func (v addresses) Set(s string) error {
	var list []string
	for a := range strings.SplitSeq(s, ",") {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		if err := (address{text{new(string)}}).Set(a); err != nil {
			return err
		}
		list = append(list, a)
	}
	*v.p = list
	return nil
}
func (v addresses) String() string  { return strings.Join(*v.p, ",") }
func (v addresses) Redis() string   { return v.String() }
func (v addresses) Type() string    { return "host:port,..." }
func (v addresses) Allowed() string { return "host:port, or several separated by commas" }

// certNames is a list of names in certificates, separated by commas.
type certNames struct{ p *[]string }

func (v certNames) Set(s string) error {
	var list []string
	for n := range strings.SplitSeq(s, ",") {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		if strings.ContainsFunc(n, unicode.IsControl) {
			return errNotCertNames
		}
		list = append(list, n)
	}
	*v.p = list
	return nil
}
func (v certNames) String() string  { return strings.Join(*v.p, ",") }
func (v certNames) Redis() string   { return v.String() }
func (v certNames) Type() string    { return "name,..." }
func (v certNames) Allowed() string { return "common or DNS names, separated by commas" }

// attributeNames is a list of attributes' names, separated by commas; * means all.
type attributeNames struct{ p *[]string }

func (v attributeNames) Set(s string) error {
	var list []string
	for n := range strings.SplitSeq(s, ",") {
		if n = strings.TrimSpace(n); n == "" {
			continue
		}
		if n != "*" && (len(n) > policy.MaxEntryKey || strings.ContainsFunc(n, func(c rune) bool { return unicode.IsControl(c) || unicode.IsSpace(c) })) {
			return errNotAttributeNames
		}
		list = append(list, n)
	}
	*v.p = list
	return nil
}
func (v attributeNames) String() string  { return strings.Join(*v.p, ",") }
func (v attributeNames) Redis() string   { return v.String() }
func (v attributeNames) Type() string    { return "name,..." }
func (v attributeNames) Allowed() string { return "names without blanks, separated by commas, or *" }

// enum is one word of a fixed list. Upper and lower case are the same.
type enum struct {
	p     *string
	words []string
}

func (v enum) Set(s string) error {
	s = strings.ToLower(s)
	if !slices.Contains(v.words, s) {
		return fmt.Errorf("argument(s) must be one of the following: %s", strings.Join(v.words, ", "))
	}
	*v.p = s
	return nil
}
func (v enum) String() string  { return *v.p }
func (v enum) Redis() string   { return *v.p }
func (v enum) Type() string    { return strings.Join(v.words, "|") }
func (v enum) Allowed() string { return "one of " + strings.Join(v.words, ", ") }

// yesNo is yes or no, as in Redis. It also accepts the spellings of truth values in YAML
// and Go.
type yesNo struct{ p *bool }

func (v yesNo) Set(s string) error {
	switch strings.ToLower(s) {
	case "yes", "true", "on":
		*v.p = true
	case "no", "false", "off":
		*v.p = false
	default:
		return errNotYesNo
	}
	return nil
}

func (v yesNo) String() string {
	if *v.p {
		return "yes"
	}
	return "no"
}
func (v yesNo) Redis() string   { return v.String() }
func (v yesNo) Type() string    { return "yes|no" }
func (v yesNo) Allowed() string { return "yes or no" }

// integer is a whole number within bounds.
type integer struct {
	p           *int
	least, most int
}

func (v integer) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return errNotInteger
	}
	if n < int64(v.least) || n > int64(v.most) {
		return rangeError(int64(v.least), int64(v.most))
	}
	*v.p = int(n)
	return nil
}
func (v integer) String() string { return strconv.Itoa(*v.p) }
func (v integer) Redis() string  { return v.String() }
func (v integer) Type() string   { return "number" }
func (v integer) Allowed() string {
	return fmt.Sprintf("a whole number from %d to %d", v.least, v.most)
}

// fileMode is a file's permission bits in octal; 0 leaves the permission to the umask.
type fileMode struct{ p *uint32 }

func (v fileMode) Set(s string) error {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o777 {
		return errNotOctal
	}
	*v.p = uint32(n)
	return nil
}
func (v fileMode) String() string  { return strconv.FormatUint(uint64(*v.p), 8) }
func (v fileMode) Redis() string   { return v.String() }
func (v fileMode) Type() string    { return "octal" }
func (v fileMode) Allowed() string { return "permission bits in octal, from 0 to 777" }

// sizeUnits are Redis's suffixes of memory values: k is 1000, kb is 1024. Longer suffixes
// come first, so that "kb" is not read as "b".
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10},
	{"g", 1e9}, {"m", 1e6}, {"k", 1e3}, {"b", 1},
}

// size is a number of bytes within bounds, with Redis's suffixes. If zeroMeans is set, 0 is
// allowed too. If total is set, a percentage means that share of total(). If auto is set,
// the word auto is allowed and stored as Auto.
type size struct {
	p           *int64
	share       *int // the percentage of total, if one was set; may be nil
	least, most int64
	zeroMeans   string
	total       func() int64
	auto        func() int64 // returns the size that auto means
	autoMeans   string
}

// Auto means a size that depends on other parameters.
const Auto = -1

const auto = "auto"

func (v size) Set(s string) error {
	if v.auto != nil && strings.EqualFold(s, auto) {
		v.store(Auto, 0)
		return nil
	}
	n, percent, err := v.parse(strings.ToLower(s))
	if err != nil {
		return err
	}
	if n == 0 && v.zeroMeans != "" {
		v.store(0, percent)
		return nil
	}
	if n < v.least || n > v.most {
		return rangeError(v.least, v.most)
	}
	v.store(n, percent)
	return nil
}

func (v size) store(n int64, percent int) {
	*v.p = n
	if v.share != nil {
		*v.share = percent
	}
}

func (v size) parse(s string) (n int64, percent int, err error) {
	if percent, ok := strings.CutSuffix(s, "%"); ok && v.total != nil {
		n, err := strconv.ParseUint(percent, 10, 8)
		if err != nil || n < 1 || n > 100 {
			return 0, 0, errNotMemory
		}
		return v.total() / 100 * int64(n), int(n), nil
	}
	unit := int64(1)
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(s, u.suffix); ok {
			s, unit = digits, u.bytes
			break
		}
	}
	units, err := strconv.ParseUint(s, 10, 63)
	if err != nil || int64(units) > math.MaxInt64/unit {
		return 0, 0, errNotMemory
	}
	return int64(units) * unit, 0, nil
}

// String returns the value in the form that a user would write: a percentage stays a
// percentage.
func (v size) String() string {
	if *v.p == Auto {
		return auto
	}
	if v.share != nil && *v.share > 0 {
		return strconv.Itoa(*v.share) + "%"
	}
	return formatSize(*v.p)
}

// formatSize returns n in the largest unit, a power of 1024, that divides n.
func formatSize(n int64) string {
	for _, u := range sizeUnits[:3] {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// HumanSize returns n bytes in a form for people, such as 4.7 GiB. 0 means no limit, as in
// maxmemory.
func HumanSize(n int64) string {
	if n == 0 {
		return "no limit"
	}
	unit, names := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for unit >= 1024 && len(names) > 1 {
		unit, names = unit/1024, names[1:]
	}
	return strconv.FormatFloat(math.Round(unit*10)/10, 'f', -1, 64) + " " + names[0]
}

// inBytes returns the size in force, in bytes.
func (v size) inBytes() int64 {
	if *v.p == Auto {
		return v.auto()
	}
	return *v.p
}

func (v size) Redis() string { return strconv.FormatInt(v.inBytes(), 10) }
func (v size) Type() string  { return "size" }
func (v size) Allowed() string {
	s := "a size of at least " + formatSize(v.least)
	if v.most < math.MaxInt64 {
		s = "a size from " + formatSize(v.least) + " to " + formatSize(v.most)
	}
	s += ", such as 64mb"
	if v.total != nil {
		s += "; a share of the memory, such as 60%"
	}
	if v.zeroMeans != "" {
		s += "; 0 for " + v.zeroMeans
	}
	if v.auto != nil {
		s += "; auto for " + v.autoMeans
	}
	return s
}

// duration is a duration within bounds. A number without a unit counts in the parameter's
// unit, as in Redis's parameter of the same name. If least is negative, a negative duration
// is allowed and switches the feature off.
type duration struct {
	p           *time.Duration
	unit        time.Duration
	least, most time.Duration
}

func (v duration) Set(s string) error {
	d, err := v.parse(s)
	if err != nil {
		return err
	}
	if d < v.least || d > v.most {
		return rangeError(int64(v.least/v.unit), int64(v.most/v.unit))
	}
	*v.p = d
	return nil
}

func (v duration) parse(s string) (time.Duration, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err == nil {
		if n > math.MaxInt64/int64(v.unit) || n < math.MinInt64/int64(v.unit) {
			return 0, errNotDuration
		}
		return time.Duration(n) * v.unit, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, errNotDuration
	}
	return d, nil
}

func (v duration) String() string {
	if *v.p < 0 {
		return v.Redis()
	}
	return v.p.String()
}
func (v duration) Redis() string { return strconv.FormatInt(int64(*v.p/v.unit), 10) }
func (v duration) Type() string  { return "duration" }
func (v duration) Allowed() string {
	names := map[time.Duration]string{time.Second: "seconds", time.Millisecond: "milliseconds", time.Microsecond: "microseconds"}
	s := fmt.Sprintf("a duration such as 5s or 500ms (a bare number counts %s)", names[v.unit])
	if v.least < 0 {
		return s + " up to " + v.most.String() + ", or -1 for off"
	}
	return fmt.Sprintf("%s, from %v to %v", s, v.least, v.most)
}
