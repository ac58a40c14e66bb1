package pytorch

import (
	"fmt"
	"time"

	"github.com/trainspan/trainspan/internal/human"
)

// DeviceUse says how a device spent the profiler's window. All are unions: a
// moment counts once, however many streams worked in it.
type DeviceUse struct {
	// Device is the number of the device in its process.
	Device int64 `json:"device"`
	// Window is the length of the profiler's window, Idle the part in which
	// nothing ran.
	Window time.Duration `json:"window_ns"`
	Idle   time.Duration `json:"idle_ns"`
	// Compute, Comm and Copy are by class; ExposedComm is communication while
	// nothing computed.
	Compute     time.Duration `json:"compute_ns"`
	Comm        time.Duration `json:"comm_ns"`
	Copy        time.Duration `json:"copy_ns"`
	ExposedComm time.Duration `json:"comm_exposed_ns"`
}

func (d *DeviceUse) text() string {
	use := func(part time.Duration) string {
		return human.Duration(int64(part)) + " (" + human.Share(int64(part), int64(d.Window)) + ")"
	}
	return fmt.Sprintf("device %d: compute %s, communication %s, %s of it exposed, copies %s, idle %s",
		d.Device, use(d.Compute), use(d.Comm), human.Duration(int64(d.ExposedComm)), use(d.Copy), use(d.Idle))
}
