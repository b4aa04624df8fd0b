package measure

import "errors"

// Subscribe passes the rows of a pipeline to a sink until Cancel.
func (p *Point) Subscribe(pipeline Pipeline, sink RowSink) (*Subscription, error) {
	return p.subscribe(pipeline, func(s *Subscription) error {
		s.sink = sink
		return nil
	})
}

// Flush closes the open windows, and sends their rows as batches.
func (s *Subscription) Flush() error {
	s.mu.Lock()
	err := s.flush()
	s.mu.Unlock()
	if s.stream != nil {
		err = errors.Join(err, s.stream.Flush())
	}
	return err
}
