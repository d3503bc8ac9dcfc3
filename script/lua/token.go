package lua

import "fmt"

// token is a terminal symbol of the language: a character, or one of those
// below.
type token int

const (
	tokAnd token = iota + 257
	tokBreak
	tokDo
	tokElse
	tokElseif
	tokEnd
	tokFalse
	tokFor
	tokFunction
	tokIf
	tokIn
	tokLocal
	tokNil
	tokNot
	tokOr
	tokRepeat
	tokReturn
	tokThen
	tokTrue
	tokUntil
	tokWhile
	tokConcat
	tokDots
	tokEqual
	tokGreaterEqual
	tokLessEqual
	tokNotEqual
	tokNumber
	tokName
	tokString
	tokEOF
)

var tokenNames = [...]string{
	"and", "break", "do", "else", "elseif", "end", "false", "for", "function",
	"if", "in", "local", "nil", "not", "or", "repeat", "return", "then", "true",
	"until", "while", "..", "...", "==", ">=", "<=", "~=",
	"<number>", "<name>", "<string>", "<eof>",
}

// reserved are the words that cannot be names.
var reserved = func() map[string]token {
	m := make(map[string]token)
	for k := tokAnd; k <= tokWhile; k++ {
		m[k.String()] = k
	}
	return m
}()

// String returns the token as error messages show it.
func (k token) String() string {
	switch {
	case k >= tokAnd:
		return tokenNames[k-tokAnd]
	case k < ' ' || k == 127:
		return fmt.Sprintf("char(%d)", int(k))
	}
	return string([]byte{byte(k)})
}
