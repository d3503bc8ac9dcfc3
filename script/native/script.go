package native

import (
	"encoding/hex"
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/script/lua"
)

// Script is a script of a well-known library that runs as Go.
type Script struct {
	// Library is the script's library, and its purpose there, such as "redis_rate
	// allowN".
	Library string
	// Instead is the equivalent command of Headgate, or "".
	Instead string
	// SHAs are the SHA1s in lower-case hex of the texts that libraries send.
	SHAs []string
	// Fingerprints are the fingerprints of the texts, in hex: see lua.Fingerprint.
	Fingerprints []string
	// Reads is set if the script changes nothing.
	Reads bool
	// Counts reports that the script only counts: it adds to integers, which it may create,
	// and sets times to live.
	Counts bool
	// Index is its place in All.
	Index int

	// run runs the script. If the script is known by its forms, the forms run instead.
	run   func(c *Call) bool
	forms func() []form
}

// families are the known scripts, one list for each library.
var families = [][]Script{
	laravelScripts,
	flexibleScripts,
	redisRateScripts,
	rateLimitRedisScripts,
	fastifyScripts,
	nestLabScripts,
	ululeScripts,
	bucket4jScripts,
	springGatewayScripts,
	limitsScripts,
	throttledScripts,
	fastAPIScripts,
	djangoScripts,
	asyncScripts,
	pyrateScripts,
	countingScripts,
	slidingLogScripts,
	tokenBucketScripts,
}

var (
	bySHA         = map[string]*Script{}
	byFingerprint = map[lua.Fingerprint]*Script{}
)

func init() {
	for i, s := range All() {
		s.Index = i
		s.register()
	}
}

func (s *Script) register() {
	for _, sha := range s.SHAs {
		bySHA[sha] = s
	}
	for _, text := range s.Fingerprints {
		var f lua.Fingerprint
		if n, err := hex.Decode(f[:], []byte(text)); err != nil || n != len(f) {
			panic("script/native: fingerprint " + text)
		}
		byFingerprint[f] = s
	}
}

// All returns the known scripts in the order of their libraries.
func All() []*Script {
	var all []*Script
	for _, family := range families {
		for i := range family {
			all = append(all, &family[i])
		}
	}
	return all
}

// shaLength is the length of a SHA1 in hex.
const shaLength = 40

// BySHA returns the known script of a SHA1 in hex, in any case, or nil.
func BySHA(sha []byte) *Script {
	if s := bySHA[string(sha)]; s != nil || len(sha) != shaLength {
		return s
	}
	var lower [shaLength]byte
	for i, b := range sha {
		if b-'A' <= 'Z'-'A' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	return bySHA[string(lower[:])]
}

// Find returns the known script with a text, or nil. print is the text's fingerprint, and
// sha is its SHA1 in lower-case hex.
func Find(sha string, print lua.Fingerprint, text string) *Script {
	if s := bySHA[sha]; s != nil {
		return s
	}
	if s := byFingerprint[print]; s != nil {
		return s
	}
	return byForm(text)
}

// Run runs the script and reports whether it could. If not, it has changed and written
// nothing, and Call.Err may say why. Call.Err is engine.ErrSealed if the node does not
// decide now.
func (s *Script) Run(c *Call) bool {
	c.Err, c.odd = nil, false
	start := len(c.W.B)
	if s.run(c) {
		return true
	}
	c.W.B = c.W.B[:start]
	return false
}

// Sealed reports whether the call was refused because its node does not decide
// now.
func (c *Call) Sealed() bool { return errors.Is(c.Err, engine.ErrSealed) }
