package simjob

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
)

// Noise is the kind of variation between the steps of a rank.
type Noise string

// The kinds of noise. With Static, ranks differ from each other by constant
// factors.
const (
	None   Noise = "none"
	IID    Noise = "iid"
	Heavy  Noise = "t3"
	AR90   Noise = "ar90"
	AR97   Noise = "ar97"
	Walk   Noise = "walk"
	Static Noise = "static"
)

// Noises lists all kinds except None.
var Noises = []Noise{IID, Heavy, AR90, AR97, Walk, Static}

// draw returns the random numbers for one quantity of a job: they depend only
// on its name and indices, not on earlier draws.
func draw(seed uint64, what string, of ...int) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(what))
	x := h.Sum64()
	for _, n := range of {
		x = mix(x ^ mix(uint64(n)))
	}
	return rand.New(rand.NewPCG(mix(seed), x))
}

// mix returns the finalizer of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func clip(x, by float64) float64 { return max(-by, min(by, x)) }

// series returns the logarithm of the factor of a rank's work in each step.
func (j *Job) series(rank int) []float64 {
	out := make([]float64, j.Steps+1)
	state := draw(j.Seed, "noise begin", rank).NormFloat64() // stationary
	static := 0.004 * clip(draw(j.Seed, "static", rank).NormFloat64(), 2)
	walked := 0.0
	for s := range out {
		r := draw(j.Seed, "noise", rank, s)
		n := r.NormFloat64()
		switch j.Noise {
		case None:
		case Heavy:
			chi := 0.0
			for range 3 {
				x := r.NormFloat64()
				chi += x * x
			}
			out[s] = 0.008 * clip(n/math.Sqrt(chi/3), 25)
		case AR90, AR97:
			rho := 0.9
			if j.Noise == AR97 {
				rho = 0.97
			}
			state = rho*state + math.Sqrt(1-rho*rho)*n
			out[s] = 0.012 * state
		case Walk:
			walked = clip(walked+0.002*n, 0.02)
			out[s] = walked + 0.004*r.NormFloat64()
		case Static:
			out[s] = static + 0.004*n
		default:
			out[s] = 0.01 * n
		}
	}
	return out
}

// factor returns the factor of the time of a piece of a rank's work. The calm
// rank has the mean of the others.
func (j *Job) factor(rank, step int, phase string, piece int) float64 {
	if j.Noise == None {
		return 1
	}
	if j.noises == nil {
		j.noises = make([][]float64, j.Ranks)
		for r := range j.noises {
			j.noises[r] = j.series(r)
		}
	}
	own := 0.003
	if phase == Input || phase == Transfer {
		own = 0.03
	}
	return math.Exp(j.noises[rank][step] + own*draw(j.Seed, phase, rank, step, piece).NormFloat64())
}
