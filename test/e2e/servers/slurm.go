package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// slurmConf configures a cluster of two nodes, both on this machine, over
// loopback.
const slurmConf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[3]s
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.sock
CredType=cred/munge
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/%%n
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
NodeName=s1 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[4]s CPUs=2
NodeName=s2 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=%[5]s CPUs=2
PartitionName=all Nodes=s1,s2 Default=YES State=UP
`

// Slurm is a Slurm cluster on this machine: a controller and two nodes.
type Slurm struct {
	dir     string
	daemons []*Process
}

// ErrNoSlurm is the error if Slurm cannot run on this machine.
var ErrNoSlurm = errors.New("there is no Slurm here (as root: apt-get install slurm-wlm munge)")

// StartSlurm starts the cluster in the folder dir, whose path must be short.
func StartSlurm(ctx context.Context, dir string) (*Slurm, error) {
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch"} {
		if _, err := exec.LookPath(name); err != nil || os.Getuid() != 0 {
			return nil, ErrNoSlurm
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	host, _, _ = strings.Cut(host, ".")
	values := []any{host, dir}
	for range 3 {
		address, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(address)
		values = append(values, port)
	}
	secret := make([]byte, 1024)
	_, _ = rand.Read(secret) // never fails
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "slurm.conf"), fmt.Appendf(nil, slurmConf, values...), 0o644), //nolint:gosec // read by all of Slurm
		os.Mkdir(filepath.Join(dir, "munge"), 0o700), os.WriteFile(filepath.Join(dir, "munge", "key"), secret, 0o400))
	for _, name := range []string{"state", "s1", "s2"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o755)) //nolint:gosec // of the cluster
	}
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	s := &Slurm{dir: dir}
	at := func(name string) string { return filepath.Join(dir, "munge", name) }
	for _, daemon := range [][]string{
		{"munged", "--foreground", "--force", "--key-file=" + at("key"), "--socket=" + filepath.Join(dir, "munge.sock"), "--pid-file=" + at("pid"), "--log-file=" + at("log"), "--seed-file=" + at("seed")},
		{"slurmctld", "-D"}, {"slurmd", "-D", "-N", "s1"}, {"slurmd", "-D", "-N", "s2"},
	} {
		p, err := start(ctx, s.Env(), daemon[0], daemon[1:]...)
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.daemons = append(s.daemons, p)
	}
	return s, nil
}

// Env returns the environment variables for Slurm's commands.
func (s *Slurm) Env() []string { return []string{"SLURM_CONF=" + filepath.Join(s.dir, "slurm.conf")} }

// Run runs one of its commands in a folder, and returns the output.
func (s *Slurm) Run(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), s.Env()...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("servers: %s: %w: %s", name, err, out)
	}
	return string(out), err
}

// Log returns the end of its daemons' output.
func (s *Slurm) Log() (all string) {
	for _, p := range s.daemons {
		all += p.log.String()
	}
	return all
}

// Stop stops the nodes, then the controller.
func (s *Slurm) Stop() {
	for len(s.daemons) > 0 {
		last := len(s.daemons) - 1
		s.daemons[last].Stop()
		s.daemons = s.daemons[:last]
	}
}
