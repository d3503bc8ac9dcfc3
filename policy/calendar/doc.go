// Package calendar cuts time into the days, weeks, months, quarters and years of
// a zone. It opens nothing and knows no clock.
//
//   - Rules hold the zone, the period, and where windows begin.
//   - Calendar answers which window contains an instant.
//   - Zone and Zones are the known zones.
//
// A window lasts from the first instant of its first day to the first instant of
// the first day of the next. Where the day begins at a wall time other than
// midnight, it is the first instant at or past that time. So windows follow each
// other without gap or overlap, whatever clocks do: the instant decides which
// one is open, not the date on the wall. A clock that goes back over midnight
// does not bring a window back. A day that a zone left out has no window, or,
// where days begin at another time, the part of the next day that remains.
//
// The rules of zones are in the binary, and the machine's are not used: nodes
// of one version agree. zoneinfo.zip is the toolchain's; `go generate` brings
// its present one.
//
// Methods are safe for concurrent use.
package calendar
