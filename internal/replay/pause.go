package replay

import "time"

// A pause may take so many times as long as the longest of its kind so far, and the
// first one this long, before it is taken for a hang.
const (
	pauseTimes = 3
	firstPause = int64(15 * time.Minute)
)

// pausing reports whether a rank is in a pause that may still end.
func (st *stand) pausing() bool {
	for k := range PauseKinds {
		longest := int64(0)
		for _, rs := range st.ranks {
			longest = max(longest, rs.info.Pauses[k].Longest)
		}
		allowed := pauseTimes * longest
		if longest == 0 {
			allowed = firstPause
		}
		for _, rs := range st.ranks {
			since := rs.info.Pauses[k].Since
			if since != 0 && max(rs.info.LastSeen, rs.last.lastEnd)-since < allowed {
				return true
			}
		}
	}
	return false
}
