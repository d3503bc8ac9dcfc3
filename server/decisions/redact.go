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

// all is the name that means all attributes and also keys of limits.
const all = "*"

// redactor hides values unless the operator wants them shown.
type redactor struct {
	plain []string
	key   []byte
}

// keyLength is the length of a random key in bytes.
const keyLength = 32

func newRedactor(plain []string, key []byte) redactor {
	if len(key) == 0 {
		key = make([]byte, keyLength)
		_, _ = rand.Read(key) // never fails
	}
	return redactor{plain, key}
}

// hashLength is how many bytes of a hash lines show: enough to tell apart about four
// billion callers.
const hashLength = 8

// value returns the value of an attribute in the form that lines show. The name "" means a
// key of a limit.
func (r *redactor) value(name string, value []byte) string {
	if string(value) == command.Redacted || slices.Contains(r.plain, all) || name != "" && slices.Contains(r.plain, name) {
		return string(value)
	}
	mac := hmac.New(sha256.New, r.key)
	mac.Write(value)
	return "#" + hex.EncodeToString(mac.Sum(nil)[:hashLength])
}

// maxError is how many bytes of an error are shown.
const maxError = 256

// failure returns an error in the form that lines show, because an error's text may quote a
// private value.
func (r *redactor) failure(text string) string {
	if !slices.Contains(r.plain, all) {
		text, _, _ = strings.Cut(text, " ")
	}
	return text[:min(len(text), maxError)]
}
