package decisions

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/server/command"
)

// all is the name that stands for all attributes, and keys of limits.
const all = "*"

// redactor shows values as the operator wants them shown.
type redactor struct {
	plain []string
	key   []byte
}

// keyLength is how long a key is that is drawn, in bytes.
const keyLength = 32

func newRedactor(plain []string, key []byte) redactor {
	if len(key) == 0 {
		key = make([]byte, keyLength)
		_, _ = rand.Read(key) // never fails
	}
	return redactor{plain, key}
}

// hashLength is how much of a hash is shown, in bytes: some four billion callers have
// a hash of their own each.
const hashLength = 8

// value returns the value of an attribute as it is shown, or that of a key, whose name
// is "".
func (r *redactor) value(name string, value []byte) string {
	if string(value) == command.Redacted || slices.Contains(r.plain, all) || name != "" && slices.Contains(r.plain, name) {
		return string(value)
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write(value)
	return "#" + hex.EncodeToString(mac.Sum(nil)[:hashLength])
}

// maxError is how much is shown of an error, in bytes.
const maxError = 256

// failure returns an error as it is shown: its text may quote a value.
func (r *redactor) failure(text string) string {
	if !slices.Contains(r.plain, all) {
		text, _, _ = strings.Cut(text, " ")
	}
	return text[:min(len(text), maxError)]
}
