package lane

// Known is how many other servers have answered that they are present.
func (l *Lanes) Known() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.absences)
}
