# The far end of a stream in a world without Python: the frames of commands/frames.py, spoken by sh.
# Arguments: the shell of commands; "alone" if nobody but commands has processes here.
# One process reads frames (this one). Per command there are: the shell; a copier of its output into a file; a
# ticker for live words and the deadline; a watcher that tells how it ended. Whoever writes a frame holds a lock.
# What belongs to a command is found by its session, its parents and a mark in its environment.
umask 022
shell=$1 alone=$2 count=0 mark= pid= watcher=
dir=$(umask 077; mktemp -d "${TMPDIR:-/tmp}/.hermes-XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
mkfifo "$dir/out" || exit 1
exec 3>&1
set -C
tick=0.1; sleep 0.01 2>/dev/null || tick=1
session=; setsid true 2>/dev/null && session=setsid
exact=slow
if [ "$(printf abc | { head -c 1 >/dev/null; cat; })" = bc ]; then exact=head
elif dd if=/dev/null bs=1 count=1 iflag=fullblock 2>/dev/null; then exact=dd; fi

lock() { until { true >"$dir/lock"; } 2>/dev/null; do :; done; }
unlock() { rm -f "$dir/lock"; }
size() { n=$(wc -c <"$1"); n=$((n)); }
numbers() { printf '%s %d\n%s' "$1" "${#2}" "$2" >&3; }

take() { # so many bytes of the stream, into a file
  if [ "$1" = 0 ]; then : >|"$2"; return; fi
  case $exact in
    head) head -c "$1" >|"$2"; return ;;
    dd) dd bs="$1" count=1 iflag=fullblock 2>/dev/null >|"$2"; return ;;
  esac
  had=0
  while [ "$had" -lt "$1" ]; do
    left=$(($1 - had)); [ $left -gt 65536 ] && left=65536
    dd bs=$left count=1 2>/dev/null >>"$2.part"
    size "$2.part"; [ $n -gt "$had" ] || exit 0
    had=$n
  done
  mv -f "$2.part" "$2"
}

part() { # a frame with a part of a file: letter, file, bytes before it, bytes of it
  printf '%s %d\n' "$1" "$4" >&3
  if [ "$4" -gt 0 ]; then
    if [ "$3" = 0 ]; then head -c "$4" "$2" >&3; else tail -c +$(($3 + 1)) "$2" | head -c "$4" >&3; fi
  fi
}

whole() { # a frame with a whole file that nobody writes to
  n=0; [ -s "$2" ] && size "$2"
  printf '%s %d\n' "$1" "$n" >&3
  if [ "$n" -gt 0 ]; then cat "$2" >&3; fi
}

goes_on() { # whether something of the command is left, seen at a glance
  kill -0 -"$pid" 2>/dev/null || grep -qs "HERMES_MARK=$mark" /proc/[0-9]*/environ
}

tree() { # the processes of the command: of its session, with its mark, and below those
  marked=" $(grep -sl "HERMES_MARK=$mark" /proc/[0-9]*/environ | tr '\n' ' ') "
  cat /proc/[0-9]*/stat 2>/dev/null | awk -v session="$pid" -v me="$$" -v marked="$marked" '
    { pid = $1; sub(/^.*\) /, ""); if ($1 == "Z" || pid == me || pid == 1) next
      parent[pid] = $2; own[pid] = $4 == session || index(marked, " /proc/" pid "/environ ") }
    END {
      do { again = 0
        for (pid in parent) if (!own[pid] && own[parent[pid]]) own[pid] = again = 1
      } while (again)
      for (pid in parent) if (own[pid]) printf "%s ", pid
    }'
}

strays() { # in a world of our own: what has shed mark, session and parents
  [ -n "$alone" ] || return
  for stat in /proc/[0-9]*/stat; do
    read -r line 2>/dev/null <"$stat" || continue
    p=${line%% *}; set -- ${line##*) }
    [ "$2" = 1 ] && [ "$p" != 1 ] && [ "$1" != Z ] || continue
    grep -qs HERMES_MARK= "/proc/$p/environ" || echo "$p"
  done
}

end_tree() { # seconds between the polite and the final signal
  [ -n "$pid" ] || return
  if [ "$1" != 0 ]; then all=$(tree); [ -z "$all" ] || kill -TERM $all 2>/dev/null; sleep 0.3 2>/dev/null || sleep 1; fi
  tries=0
  while [ $tries -lt 40 ]; do
    all="$(tree)$(strays)"; [ -n "$all" ] || break
    kill -KILL $all 2>/dev/null
    tries=$((tries + 1))
  done
}

copy() { # from the pipe into a file, up to 16 MB; of what comes after that, the end
  had=0
  while :; do
    dd bs=65536 count=256 2>/dev/null >>"$1"
    size "$1"
    [ $((n - had)) -ge 256 ] || break # fewer bytes than it may read times: that was the end
    if [ $n -ge 16777216 ]; then tail -c 30000 >|"$1.end"; break; fi
    had=$n
  done
  : >|"$1.copied"
}

tell() { # what nobody was told yet: letter, at most so many bytes
  read -r told <"$run.told"; size "$run"
  first=$told; [ $((n - told)) -gt "$2" ] && first=$((n - $2))
  dropped=$((first - told))
  part "$1" "$run" "$first" $((n - first))
  echo "$n" >|"$run.told"
}

ticks() { # live words, what is watched for, and the deadline
  looked=0
  while sleep $tick; do
    [ -e "$run" ] && [ ! -e "$run.over" ] || return
    if [ "$background" = 0 ]; then
      read -r told <"$run.told"; size "$run"
      if [ "$n" -gt "${told:-0}" ]; then lock; [ -e "$run" ] && [ ! -e "$run.over" ] && tell o 4000; unlock; fi
    elif [ -s "$run.watch" ]; then
      read -r told <"$run.told"; size "$run"; [ "$told" -gt "$looked" ] && looked=$told
      if [ "$n" -gt "$looked" ] && tail -c +$((looked + 1)) "$run" | grep -qFf "$run.watch"; then
        lock; [ -e "$run" ] && [ ! -e "$run.over" ] && tell u 100000 && numbers p "$dropped"; unlock
        looked=$n; sleep 1
      fi
      [ $((looked + 1000)) -lt "$n" ] && looked=$((n - 1000))
    fi
    if [ "$limit" -gt 0 ] && [ "$(date +%s)" -ge "$limit" ]; then
      : >|"$run.timed"; end_tree 0.3; : >|"$run.killed"; return
    fi
  done
}

watch() { # until the shell is gone; then how it ended, and READY when nothing is left
  wait "$pid" 2>/dev/null; code=$?
  if [ -e "$run.timed" ]; then until [ -e "$run.killed" ]; do sleep 0.02 2>/dev/null || sleep 1; done; fi
  tries=0; left=1
  while [ $tries -lt 5 ]; do
    goes_on || { left=0; break; }
    sleep 0.01 2>/dev/null; tries=$((tries + 1))
  done
  tries=0 # what hides from us may still hold the pipe, so its end is not waited for without end
  while [ $left = 0 ] && [ ! -e "$run.copied" ] && [ $tries -lt 100 ]; do
    sleep 0.005 2>/dev/null; tries=$((tries + 1))
  done
  timed=0; [ -e "$run.timed" ] && timed=1 code=124
  lock
  : >|"$run.over"
  cut=0 saved=
  if [ "$background" = 0 ]; then tell o 4000; else tell u 100000; fi
  if [ "$n" -gt 50000 ]; then
    cut=$((n - 50000)) saved=$(cat "$dir/f")
    mkdir -p "${saved%/*}" 2>/dev/null && cp "$run" "$saved" 2>/dev/null || saved=
    [ -e "$run.end" ] && cut=$((n - 20000))
  fi
  head=$n; [ $head -gt 20000 ] && head=20000
  tail=$((n - head)); [ $tail -gt 30000 ] && tail=30000
  part h "$run" 0 $head
  if [ -s "$run.end" ]; then whole t "$run.end"; else part t "$run" $((n - tail)) $tail; fi
  whole s "$run.state"
  for letter in v g; do
    if [ $letter = v ]; then text=$saved; else text=$gone; fi
    printf %s "$text" >|"$dir/text"; whole $letter "$dir/text"
  done
  numbers x "$code $timed $left $cut $dropped"
  unlock
  while [ $left = 1 ]; do
    sleep $tick; goes_on || left=0
  done
  rm -f "$run" "$run".*
  printf 'y 0\n' >&3
}

feed() { # what is written to the command's standard input, in order; ends with it
  at=1
  until [ -e "$run.over" ]; do
    if [ -e "$run.in.$at" ]; then cat "$run.in.$at" >&4 2>/dev/null || return; rm "$run.in.$at"; at=$((at + 1))
    elif [ -e "$run.in.end" ]; then return
    else sleep 0.02 2>/dev/null || sleep 1; fi
  done
}

# The state is dumped when the shell leaves, whatever made it leave; see supervisor.py.
boot='H=$1 R=$2 M=$HERMES_MARK; exec 8>>"$R.state"; eval "$(cat "$H/e")" 2>/dev/null
export HERMES_MARK="$M"; O=${OLDPWD-}; cd "$3"; [ -n "$O" ] && OLDPWD=$O; C=$(cat "$H/c"; echo .); C=${C%.}
unset M O H R; set --
trap "{ set +x; command pwd -P; printf \"\\0\"; export -p; printf \"\\0\\0\"; } >&8 2>/dev/null" EXIT
eval "unset C; $C"
{ set -- $?; set +eux; } 2>/dev/null; exit $1'

start() {
  read -r limit background <"$dir/r"
  case $limit in *.*) limit=$((${limit%.*} + 1)) ;; esac
  [ "$limit" = 0 ] || limit=$(($(date +%s) + limit + 1)) # whole seconds: rather late than early
  count=$((count + 1)) run=$dir/$count mark=$$-$count. gone=
  folder=$(cat "$dir/d")
  while [ ! -d "$folder" ] && [ -n "$folder" ]; do gone=$(cat "$dir/d"); folder=${folder%/*}; done
  : >|"$run"; : >|"$run.state"; echo 0 >|"$run.told"
  [ ! -e "$dir/2" ] || mv "$dir/2" "$run.watch"
  printf 'a 0\n' >&3
  if [ "$background" = 0 ]; then input=/dev/null; else input=$dir/in; rm -f "$input"; mkfifo "$input"; fi
  {
    copy "$run" <"$dir/out" &
    env -i HERMES_MARK=$mark $session "$shell" -c "$boot" hermes "$dir" "$run" "${folder:-/}" \
      <"$input" >|"$dir/out" 2>&1 3>&- &
    pid=$!
    echo $pid >|"$dir/pid"
    ticks &
    watch
  } 4>&- &
  watcher=$!
  if [ "$background" != 0 ]; then exec 4>|"$input"; fi
  until [ -s "$dir/pid" ]; do :; done
  read -r pid <"$dir/pid"; rm -f "$dir/pid"
  pieces=0
}

printf 'y 0\n' >&3
while read -r letter length; do
  take "$length" "$dir/$letter"
  case $letter in
    q | r) if [ -n "$watcher" ]; then wait "$watcher"; watcher=; fi ;; # it has a last word to say
  esac
  case $letter in
    q)
      sh -c "$(cat "$dir/q")" <"$dir/i" >|"$dir/u" 2>/dev/null; code=$?
      whole u "$dir/u"; numbers x "$code 0 0 0 0"
      rm -f "$dir/u" "$dir/i" ;;
    r) start ;;
    k) read -r grace <"$dir/k"; end_tree "$grace" ;;
    p) lock; if [ ! -e "$run.over" ]; then tell u 100000; numbers p "$dropped"; fi; unlock ;;
    w)
      pieces=$((pieces + 1)); mv "$dir/w" "$run.in.$pieces"
      [ $pieces = 1 ] && feed & ;;
    z) : >|"$run.in.end"; exec 4>&- ;;
  esac
done
end_tree 0
