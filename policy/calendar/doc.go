// Package calendar divides time into the days, weeks, months, quarters and years of a
// zone. It opens no files and reads no clock.
//
//   - Rules hold the zone, the period, and where windows begin.
//   - Calendar answers which window contains an instant.
//   - Zone and Zones are the known zones.
//
// A window lasts from the first instant of its first day to the first instant of the
// first day of the next window. If days begin at a wall time other than midnight, a day's
// first instant is the first one at or after that time. So windows follow each other
// without gap or overlap, whatever clocks do: the instant decides which window is open,
// not the date on the wall. A clock that goes back over midnight does not bring a window
// back. A day that a zone left out has no window. If days begin at another time, its
// window is the part of the next day that remains.
//
// The rules of zones are in the binary. The machine's rules are not used, so that nodes
// of one version agree. zoneinfo.zip is the toolchain's; `go generate` updates it.
//
// Methods are safe for concurrent use.
package calendar
