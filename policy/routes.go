package policy

import (
	"errors"

	"github.com/headgate-io/headgate/policy/route"
)

// Bounds of routes.
const (
	// MaxRouteSets is how many sets of routes there may be.
	MaxRouteSets = 64
	// MaxGiven is how many attributes a route may give, including those of its set. So a
	// call has at most MaxAttributes, with those that every request has.
	MaxGiven = MaxAttributes - len(requestAttributes)
)

// requestAttributes are the attributes that every request of a gateway has.
var requestAttributes = [...]string{IPAttribute, "method", "host", "path", "route"}

// Routes is a set of routes, which say for each request of a gateway which policy to ask.
// It is immutable.
type Routes struct {
	// Name is the name of the record: `routes/` followed by a name.
	Name    string
	Version uint64

	file   string // the file that errors name
	table  *route.Table
	routes []Route // the routes of the table's patterns
	other  Route
	slash  Slashes
	fold   bool
}

// Route says what a request asks for.
type Route struct {
	// Pattern is the text of the route's pattern. It is "" for the route of all requests
	// that no other route matches.
	Pattern string
	Answer  Answer
	// Policy is the policy that decides, if the route asks a policy (AskPolicy).
	Policy string
	// Given are the attributes that the route adds. Every request also has the attributes
	// ip, method, host, path, and route, which is the pattern.
	Given []Given
	// Cost is the cost of the call; with 0 the policy decides the cost.
	Cost int64

	place Place
}

// Answer is the result of a route.
type Answer uint8

// A policy decides; every request passes; every request is denied.
const (
	AskPolicy Answer = iota
	AllowAll
	DenyAll
)

// Given is an attribute that a route gives.
type Given struct {
	Name string
	From Origin
	// Key is the name of the header field (in canonical form), of the cookie or of the
	// parameter. For a Constant, Key is the value.
	Key string
	// Param is the index of the name in the pattern, for Found.Param.
	Param int

	place Place
}

// String says where the value comes from.
func (g *Given) String() string {
	if g.From == Constant {
		return "constant"
	}
	return g.From.String() + " " + g.Key
}

// Origin is where the value of an attribute comes from.
type Origin uint8

// Where a value comes from: a text in the route, a header field, a cookie, a parameter of
// the query, a segment of the path.
const (
	Constant Origin = iota
	FromHeader
	FromCookie
	FromQuery
	FromPath
)

var origins = [...]string{"", "header", "cookie", "query", "path"}

// String returns the word of the grammar, "" for Constant.
func (s Origin) String() string { return origins[s] }

// Slashes says how to read an encoded slash in a path.
type Slashes uint8

const (
	// SlashDenied denies requests whose route depends on how a server reads the slash.
	SlashDenied Slashes = iota
	// SlashInSegment reads an encoded slash as part of its segment, and SlashSeparates
	// reads it as a slash.
	SlashInSegment
	SlashSeparates
)

var slashNames = [...]string{"deny", "segment", "separator"}

// String returns the word of the grammar.
func (s Slashes) String() string { return slashNames[s] }

// Found is the route of a request, and the request in canonical spelling.
type Found struct {
	Route *Route
	// Path is "" for a request without a path, such as OPTIONS *.
	Method, Host, Path string
	// Query is the text after the `?`, as it came.
	Query string

	params route.Found
}

// Param returns the part of the path that matched a name of the pattern: see Given.
func (f *Found) Param(i int) string { return f.params.Param(i) }

// ErrEncodedSlash is returned for a path with an encoded slash, if the route depends on how
// a server reads it.
var ErrEncodedSlash = errors.New("the path has %2F, and its route depends on whether the application reads %2F as a slash or as part of a segment; set encoded_slash to separator or segment")

// Find returns the route of a request. method, host and target are what the gateway
// reports; target is a path with a query. [route.Table.Match] describes the order of
// patterns.
func (s *Routes) Find(method, host, target string, f *Found) error {
	*f = Found{Route: &s.other, Method: method, Host: route.Host(host)}
	path, query, ok := route.Split(target)
	if !ok {
		return nil
	}
	f.Query = query
	as := route.SlashInSegment
	if s.slash == SlashSeparates {
		as = route.SlashSeparates
	}
	f.Path = route.Clean(path, as, s.fold)
	f.Route = s.match(f)
	if s.slash == SlashDenied && route.HasEncodedSlash(path) {
		other := Found{Method: f.Method, Host: f.Host, Path: route.Clean(path, route.SlashSeparates, s.fold)}
		if s.match(&other) != f.Route {
			return ErrEncodedSlash
		}
	}
	return nil
}

// match finds the route of a request in canonical spelling.
func (s *Routes) match(f *Found) *Route {
	if s.table.Match(f.Method, f.Host, f.Path, &f.params) {
		return &s.routes[f.params.Pattern]
	}
	return &s.other
}

// all yields the routes of the set, last the one for all other requests.
func (s *Routes) all(yield func(*Route) bool) {
	for i := range s.routes {
		if !yield(&s.routes[i]) {
			return
		}
	}
	yield(&s.other)
}

// Gives reports whether a route itself gives an attribute.
func (r *Route) Gives(name string) bool {
	for i := range r.Given {
		if r.Given[i].Name == name {
			return true
		}
	}
	return false
}

func (s *Routes) errorAt(p Place, format string, args ...any) *Error {
	e := p.Error(s.file, format, args...)
	if e.Path == "" {
		e.Path = s.Name
	}
	return e
}
