package engine

// Sum returns the sums of the figures of several engines of a process.
func Sum(engines []*Engine) (sum Stats) {
	for _, e := range engines {
		sum = sum.Plus(e.Stats())
	}
	return sum
}

// Plus returns the sums of the figures of two engines of a process, which have one MaxBytes
// together.
func (s Stats) Plus(o Stats) Stats {
	s.Keys += o.Keys
	s.Bytes += o.Bytes
	s.MaxBytes = max(s.MaxBytes, o.MaxBytes)
	s.KeyBytes += o.KeyBytes
	s.RecordBytes += o.RecordBytes
	s.Segments += o.Segments
	s.Chunks += o.Chunks
	s.Large += o.Large
	s.Evicted += o.Evicted
	s.Expired += o.Expired
	s.Limits += o.Limits
	s.Blocks += o.Blocks
	s.Holds += o.Holds
	s.Offenders += o.Offenders
	s.HoldsEvicted += o.HoldsEvicted
	s.OffendersEvicted += o.OffendersEvicted
	s.Replaced += o.Replaced
	s.LeaseGranted += o.LeaseGranted
	s.LeaseReturned += o.LeaseReturned
	s.LeaseLapsed += o.LeaseLapsed
	return s
}
