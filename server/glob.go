package server

// glob reports whether s matches a pattern of Redis's kind: * ? [abc] [^abc]
// [a-z] and \ before a character that stands for itself. An unclosed class ends
// with the pattern, as in Redis.
//
// Only the last star is ever retried, so that the time is at most
// len(pattern)*len(s), whatever the pattern: Redis's own recursion takes
// exponential time on patterns with many stars.
func glob[P, S []byte | string](pattern P, s S) bool {
	p, i := 0, 0
	starP, starI := -1, 0 // behind the last star, and what it has taken up to
	for i < len(s) || p < len(pattern) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				p++
				starP, starI = p, i
				continue
			}
			if i < len(s) {
				if ok, next := globOne(pattern, p, s[i]); ok {
					p, i = next, i+1
					continue
				}
			}
		}
		if starP < 0 || starI >= len(s) {
			return false
		}
		starI++
		p, i = starP, starI
	}
	return true
}

// globOne matches one character against the element at pattern[p] and returns
// the position behind that element.
func globOne[P []byte | string](pattern P, p int, c byte) (ok bool, next int) {
	switch pattern[p] {
	case '?':
		return true, p + 1
	case '[':
		return globClass(pattern, p+1, c)
	case '\\':
		if p+1 < len(pattern) {
			p++
		}
	}
	return pattern[p] == c, p + 1
}

// globClass matches a character against the class whose members begin at
// pattern[p].
func globClass[P []byte | string](pattern P, p int, c byte) (ok bool, next int) {
	negated := p < len(pattern) && pattern[p] == '^'
	if negated {
		p++
	}
	for ; p < len(pattern) && pattern[p] != ']'; p++ {
		switch {
		case pattern[p] == '\\' && p+1 < len(pattern):
			p++
			ok = ok || pattern[p] == c
		case p+2 < len(pattern) && pattern[p+1] == '-':
			low, high := pattern[p], pattern[p+2]
			if low > high {
				low, high = high, low
			}
			p += 2
			ok = ok || c >= low && c <= high
		default:
			ok = ok || pattern[p] == c
		}
	}
	return ok != negated, min(p+1, len(pattern))
}
