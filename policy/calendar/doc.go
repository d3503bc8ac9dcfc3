// Package calendar divides time into the days, weeks, months, quarters and years of a time
// zone. It opens no files and reads no clock.
//
//   - Rules hold the zone, the period, and where windows begin.
//   - Calendar finds the window that contains an instant.
//   - Zone and Zones return the known zones.
//
// A window lasts from the first instant of its first day to the first instant of the
// next window's first day. If the rules say that days begin at another local time than
// midnight, a day begins at the first instant at or after that time. So windows follow
// each other without gap or overlap, even when local clocks change. The instant decides
// which window is open, not the local date. If a clock goes back over midnight, the
// window that has ended does not open again. If a zone left a day out, that day has no
// window. Exception: if days begin at another time than midnight, the window of a day
// that was left out is the rest of the next day.
//
// The rules of time zones are part of the binary, in zoneinfo.zip, which is a copy of
// the Go toolchain's file. `go generate` updates the copy. The rules that the machine
// has are not used, so all nodes of one version agree.
//
// Methods are safe for concurrent use.
package calendar
