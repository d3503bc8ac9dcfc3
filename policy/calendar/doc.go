// Package calendar divides time into the days, weeks, months, quarters and years of a time
// zone. It opens no files and reads no clock.
//
//   - Rules hold the zone, the period, and where windows begin.
//   - Calendar finds the window that contains an instant.
//   - Zone and Zones return the known zones.
//
// A window lasts from the first instant of its first day to the first instant of the next
// window's first day. If days begin at another local time than midnight, a day's first
// instant is the first instant at or after that time. So windows follow each other without
// gap or overlap, however local clocks change: the instant decides which window is open,
// not the local date. If a clock goes back over midnight, the window that was over does not
// open again. A day that a zone left out has no window. If days begin at another time than
// midnight, the window of such a day is the remaining part of the next day.
//
// The rules of zones are in the binary. The machine's rules are not used, so that all nodes
// of one version agree. zoneinfo.zip is the Go toolchain's; `go generate` updates it.
//
// Methods are safe for concurrent use.
package calendar
