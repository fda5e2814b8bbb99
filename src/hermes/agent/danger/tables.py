r"""Families of programs that break a rule by their words alone: a row for each; an indented line goes on.

All conditions of a row have to hold: `starts` = its words without options begin like this (the values of the
options in `VALUED` are passed over), `args` = all its words do (with `\n` behind each), `if` = one of its
words is like this, `unless` = none is. `<xy>` means short options in one word with x or y among them,
`{name}` a part of `PARTS`."""

from __future__ import annotations

from hermes.agent.danger.names import by_name
from hermes.agent.danger.shell.expand import UNKNOWN

VALUED = {
    name: frozenset(options.split())
    for name, options in by_name(
        {
            "kubectl oc": "-n --namespace --context --cluster --user --kubeconfig -s --server --as --token"
            " --request-timeout -o --output -l --selector --as-group --cache-dir",
            "helm": "-n --namespace --kube-context --kubeconfig --registry-config --repository-config -o",
            "gh glab": "-R --repo --hostname",
            "docker podman nerdctl docker-compose": "--context -c -H --host -l --log-level --config -f"
            " --file -p"
            " --project-name --profile --env-file --project-directory --url --connection",
            "aws": "--profile --region --output --query --endpoint-url --ca-bundle --color",
            "gcloud gsutil bq": "--project --account --configuration --format --region --zone"
            " --impersonate-service-account -o",
            "az": "--subscription --output -o --query",
            "npm yarn pnpm bun": "--prefix -C --dir --cwd --filter -F -w --workspace --loglevel",
            "cargo": "--manifest-path --config -Z --color",
            "systemctl": "-H --host -M --machine -t --type -p --property -n --lines -o",
            "pip pip3 uv": "--python --proxy --cache-dir --directory --project",
            "pulumi": "-s --stack -C --cwd",
            "heroku fly flyctl": "-a --app -r --remote -c --config",
            "doctl hcloud": "-t --access-token -c --context --config",
            "make": "-C --directory -j -f --file",
            "redis-cli": "-h -p -n -a -u -s --user --pass",
            "ansible": "-i --inventory",
            "composer": "-d --working-dir",
            "conda mamba": "-n --name -p --prefix",
            "go": "-C",
            "nmcli": "-f --fields -g --get-values -m --mode -c --colors -w --wait -e --escape",
            "ip": "-n -netns -f -family -b -batch",
            "resolvectl": "-i --interface -p --protocol -t --type",
            "ipmitool": "-H -U -P -I -L -p",
        }
    ).items()
}
"""Options with a value, which would else hide the word that says what is done."""

PARTS = {
    "unknown": UNKNOWN,
    "packagers": "pip pip3 pipx npm yarn pnpm bun gem cargo uv composer conda mamba poetry pdm",
    "installers": "apt apt-get aptitude yum dnf zypper apk brew snap flatpak port pkg choco winget scoop nala"
    " eopkg opkg tdnf microdnf rpm-ostree swupd slackpkg urpmi urpme xbps-remove pkg_add pkg_delete removepkg"
    " installpkg upgradepkg",
    "powered": r"(PowerOff|Reboot|Halt|KExec|SoftReboot|Suspend|Hibernate|HybridSleep)\w*",
    "services": "systemctl service launchctl rc-service supervisorctl initctl sc rc-update update-rc.d"
    " chkconfig pm2",
    "gitcode": r"(?i-s:(alias\..*|core\.(sshcommand|fsmonitor|hookspath|pager|editor|askpass|gitproxy"
    r"|attributesfile"
    r"|worktree)|credential\..*|diff\..*|difftool\..*|merge(tool)?\..*|filter\..*|pager\..*|gpg\..*program"
    r"|protocol\..*|sequence\.editor|uploadpack\..*|include(if)?\..*|url\..*|http\..*|remote\..*"
    r"|init\.templatedir"
    r"|browser\..*|man\..*|interactive\..*|submodule\..*|sendemail\..*|trailer\..*|receive\..*)(=.*)?)",
    "power": r"(poweroff|reboot|halt|kexec|suspend|hibernate|rescue|emergency|soft-reboot|hybrid-sleep"
    r"|suspend-then-hibernate|runlevel[016]|ctrl-alt-del)(\.target|\.service)?|(shutdown|final|exit)\.target",
    "calmservice": r"status|list-units|list-unit-files|is-active|is-enabled|show|cat|list|print|list-timers"
    r"|list-dependencies|is-failed|is-system-running|help|--status-all|--version",
    "calmcontainer": r"\Z|(ps|images|logs|inspect|version|info|stats|top|port|diff|history|search|events|ls"
    r"|list|build|config|help|df)\n|(context|buildx|builder)\n(ls|show|inspect|build|version)\n",
    "calmcluster": r"\Z|(get|describe|logs|top|version|explain|api-resources|api-versions|cluster-info"
    r"|diff|wait"
    r"|events|completion|options|kustomize|help|whoami|status|projects|auth\ncan-i|rollout\n(status|history)"
    r"|config\n(current-context|get-\w+))\n",
    "calmchart": r"\Z|(list|ls|status|get|history|template|lint|show|search|version|env|dependency|dep|create"
    r"|package|verify|diff|completion|help|repo\n(list|update|ls))\n",
    "calmplan": r"\Z|(plan|validate|fmt|init|version|show|output|graph|providers|get|preview|stack\n(ls"
    r"|output)?"
    r"|(state|workspace)\n(list|show|select)|whoami|about|help|metadata|modules|test)\n",
    "calmcloud": r"\Z|[\w:-]*\n?[\w:-]*\n?[\w:-]*\n?((list|ls|describe|lookup|batch-get|filter|search"
    r"|head|estimate)[\w-]*"
    r"|get(-[\w-]+)?|show|wait|help|version|info|status|whoami|dev|build|preview|synth|diff|validate|lint"
    r"|plan|logs?"
    r"|tail|about|du|stat|size|check|config|apps|ps|releases|regions|browse|open|docs|doctor|local"
    r"|emulators:start"
    r"|lsd|lsl|lsf|tree|cat|version\w*|projects|services|tail|routes|domains|metrics|offline|export"
    r"|package)\n",
    "changing": r"([\w:-]*\n){0,4}?([\w-]+:)?(delete|destroy|remove|rm|rb|terminate|stop|start|restart"
    r"|create|update|put|set"
    r"|add|attach|detach|deploy|purge|scale|resize|reset|exec|ssh|invoke|import|restore|rollback|promote"
    r"|disable|enable"
    r"|cp|mv|sync|copy|move|upload|mb|push|apply|revoke|grant|kill|cancel|drain|del|down|up|suspend"
    r"|move)([:-][\w:-]*)?\n",
    "secretverbs": r"(.*\n)?[\w:-]*(secret|token|credential|password|keyvault|access-key|ssh-key"
    r"|login-password|passwd)"
    r"[\w:-]*\n",
    "calmhub": r"\Z|((pr|issue|repo|release|run|workflow|gist|label|cache|project|search|org|milestone|mr"
    r"|ci)\n"
    r"(list|ls|view|status|diff|checks|checkout|clone|create|comment|reopen|edit|ready|review|watch"
    r"|download|issues"
    r"|prs|repos|code|commits|develop|close|trace"
    r"|lint)\n(?<!gist\ncreate\n)(?<!repo\ncreate\n)(?<!repo\nedit\n)"
    r"(?<!release\ncreate\n)(?<!release\nedit\n)(?<!gist\nedit\n))|(status|version|help|browse|completion"
    r"|auth\nstatus)\n",
    "adds": r"((pip|tool|cargo)\n)*(install|add|i|update|upgrade|ci|require)\n",
    "destroys": r"(db:(drop|reset|purge|truncate_all|schema:load)|[\w-]+[:._-])?(drop|destroy|nuke|wipe"
    r"|purge|teardown"
    r"|deploy|publish|release|rollback|undeploy)([:._-][\w:-]+)?",
}
"""Parts of rows by the name that stands for them."""

GIT = r"""
# What may lose work that is not committed, or that exists only here.
git/reset: git.discard if --(hard|merge|keep)(=.*)?
git/clean: git.discard if <f>|--force(=.*)? unless <n>|--dry-run(=.*)?
git/branch: git.discard if <D>
git/branch: git.discard args (?=(.*\n)?(--force[=\n]|<f>\n))(.*\n)?(--delete[=\n]|<d>\n)
git/tag: git.discard if <d>|--delete(=.*)?
git/checkout: git.discard if \.|\*|:/|\./|<f>|--force(=.*)?
git/restore: git.discard if \.|\*|:/|\./ unless <S>|--staged(=.*)?
git/switch: git.discard if <f>|--(discard-changes|force)(=.*)?
git/stash: git.discard starts (drop|clear)\n
git/worktree git/submodule: git.discard if <f>|--force(=.*)?
git/worktree git/submodule: git.code starts foreach\n
git/rm: delete.everything if \.|\*|:/|\./
git/rm: delete.everything args (?=(.*\n)?<r>\n)(.*\n)?<f>\n
# What may lose or send away what is committed, or run something else.
git/push: git.force if <fd>|--(force|force-with-lease|force-if-includes|mirror|delete|prune)(=.*)?
git/push: git.force starts .*\n[+:]
git/push: git.push if (?!-)(\w+://|[\w.-]+@[\w.-]+:).*
git/remote: git.push starts (add|set-url)\n
git/bundle git/format-patch: net.upload if --(to|stdout-to)(=.*)?
git/send-email git/imap-send git/request-pull git/daemon git/instaweb git/http-backend git/shell: git.push
git/filter-branch git/filter-repo git/replace git/fast-import git/prune: git.rewrite
git/reflog: git.rewrite starts (expire|delete)\n
git/gc: git.rewrite if --prune(=.*)?
git/update-ref git/symbolic-ref: git.rewrite if <d>|--delete(=.*)?
git/rebase: git.rewrite if --root(=.*)?
git/rebase: git.code if <x>|--exec(=.*)?
git/config: git.code starts {gitcode}\n. unless <l>|--(get|list|get-all|get-regexp)(=.*)?
git/config: write.startup starts (?!user\.(name|email)\n)[^\n]*\n. if --(global|system)(=.*)?
    unless <l>|--(get|list|get-all|get-regexp)(=.*)?
git/config: git.code if -e|--edit|--file.*|-f
git/bisect: git.code starts run\n
git/clone git/fetch git/pull git/ls-remote git/submodule git/remote: git.code
    if (ext|fd)::.*|<u>|--(upload-pack|config|template)(=.*)?
git/clone git/init: git.code if -c|-c.+|--config(=.*)?|--template(=.*)?
git/push git/archive git/send-pack git/fetch-pack: git.code if --(receive-pack|exec|upload-pack|remote)(=.*)?
git/difftool git/mergetool: git.code unless --tool-help
git/diff git/log git/show: git.code if --ext-diff(=.*)?
git/grep: git.code if -O.+|--open-files-in-pager=.+
git/apply git/am: write.unknown if --(unsafe-paths|directory=/.*|include=.*)
git/credential git/credential-store git/credential-cache: read.secret
git/maintenance: write.schedule starts (start|register)\n
git/hook git/fsmonitor--daemon git/lfs: git.code starts (run|start|install)\n
git/notes git/sparse-checkout git/subtree: git.rewrite starts (remove|prune|push)\n
"""

FILES = r"""
shred wipe srm trash trash-put rmtrash del erase rd deltree: delete.unknown
gio: delete.unknown starts (trash|remove|move)\n
chmod chown chgrp chattr setfacl: rights.recursive if <R>|--recursive
chown chgrp chattr setfacl icacls takeown: rights.owner
install: rights.open args (.*\n)?(-m\n|-m|--mode=)0*([2-7][0-7]{3}|[0-7]{2}[2367])\n
nvme: disk.format starts (format|sanitize[\w-]*|delete-ns|write[\w-]*|dsm|zns\n(reset|write)[\w-]*)\n
nvme: disk.change starts (?!\Z|(list|id|smart|get|error|show|version|help|fw-log|telemetry)[\w-]*\n)
sg_format sg_sanitize sg_write_same blkzone: disk.format if .+ unless --help|--version|-V|report
debugfs: disk.change if -[a-z]*w[a-z]*|-f.*
debugfs: read.secret if .+ unless -V
smartctl: disk.change if -[sotS].*|--(smart|set|offlineauto|saveauto|test)(=.*)?
eject sdparm: disk.change unless --help|--version|-V
fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard mke2fs mkfs badblocks format diskpart hdparm:
    disk.format unless -l|--list|-h|--help|--version|print
mount umount losetup swapon swapoff cryptsetup lvremove vgremove pvremove lvcreate zpool zfs mdadm dmsetup
    fsck diskutil e2fsck resize2fs tune2fs xfs_repair btrfs: disk.change
    if (?!(-l|-j|status|list|-V|--version)$).* unless -l|--version|-V|list|status
tar bsdtar: delete.unknown if --remove-files
7z 7za 7zz rar zip: delete.unknown if -sdel|-df|-dw|-m|--move
rsync: delete.unknown if --(delete|remove-source-files).*
cmd wsl: run.unknown if .*{unknown}.*

"""

MACHINE = r"""
{packagers}: package.change starts {adds} if
    -g|--global|--location=global|--break-system-packages|--root(=.*)?
composer yarn: package.change starts global\n
gem cpan cpanm easy_install luarocks opam: package.change unless
    list|search|show|info|-v|--version|env|help|outdated
{packagers}: package.foreign starts {adds}
    if (--(extra-)?index-url|--trusted-host|--registry|-i|-f|--find-links|git\+|https?://|ssh://|git@|file:
    |github:).*
pip pip3 uv pipx: package.foreign starts {adds}
    if ([/~]|\.\./).*|.*\.(whl|tar\.gz|zip|egg|tgz)
npm yarn pnpm bun: package.foreign starts {adds} if ([/~]|\.\./).*|.*\.tgz|[\w.-]+/[\w.-]+#?.*
pip pip3: package.foreign starts download\n if :all:|{unknown}.*
conda mamba: package.foreign starts (install|create|update)\n if -c|--channel.*
cargo: package.change starts (\+\S+\n)?install\n unless --path(=.*)?
go: package.change starts (install|run)\n(.*\n)?[\w-]+\.[\w.-]+/ unless \./.*
go: run.code starts (generate|tool)\n
go: package.foreign starts (.*\n)?[\w.-]+/\S+@
deno: package.change starts (install|upgrade|x)\n
deno: run.download starts (.*\n)?(https?:|npm:|jsr:)
deno: run.code starts (run|serve|repl)\n if -A|--allow-(all|run|write|net|ffi|env|sys).*
npm bun: run.download starts (exec|x)\n
npm yarn pnpm bun: run.download starts (dlx|create|init\n.)
uv pipx: run.download starts tool\nrun\n
uv: run.download starts run\n if --with(=.*)?|https?://.*
nix nix-shell nix-build nix-env guix: run.download if (?!--version|--help|flake|show|search|eval|fmt).+
{packagers}: package.change starts ((pip|tool|cargo)\n)*(publish|unpublish|login|adduser
    |yank|token|owner|deprecate|dist-tag|access|push|logout|profile|hook|star|team)\n
{packagers}: write.startup starts (?=([^\n]*\n){3})((pip|tool|cargo)\n)*(config|set|env)\n
    unless list|get|debug|ls
npm yarn pnpm: write.startup starts set\n.
{packagers} go: write.startup starts env\n if -w
{packagers}: package.change starts (uninstall|remove|rm)\n if -g|--global|--break-system-packages
pip pip3 pipx conda mamba: package.change starts (uninstall|remove)\n
{installers}: package.change args (-[^\n]*\n)*?--\n- unless --version
{installers}: package.change
    starts (?!(|list|search|show|info|policy|outdated|query|contents|depends|help|why|files|doctor|config
    |leaves
    |deps|desc|cat|home|log)\n)
    args (.*\n)?(--\n.|[^-]) unless --version|--dry-run|--simulate
dpkg: package.change if <irPeUF>|--(install|remove|purge|configure).* unless <q>|--get-selections
rpm: package.change if <ieUF>|--(install|erase|upgrade|import).* unless <q>
pacman yay paru: package.change if -[A-Za-z]*[RUD][A-Za-z]*|--(remove|upgrade|sync|database)
pacman yay paru: package.change if -[A-Za-z]*S[A-Za-z]* unless -S[a-z]*[silgp][a-z]*
yay paru: package.change args \Z|[^-]
nix-env emerge xbps-install installer softwareupdate: package.change if .* unless --list|-l
dpkg-reconfigure tasksel alternatives: package.change
code codium cursor: package.change if --install-extension(=.*)?|--uninstall-extension(=.*)?
{services}: power starts (?!({calmservice})\n) if {power}
{services}: agent.self starts .*hermes unless {power}|{calmservice}
{services}: service.change starts (?!.*hermes) args (.*\n)?(--\n.|[^-]) unless {power}|{calmservice}
# The same controllers by way of the bus that they listen on.
busctl dbus-send gdbus qdbus qdbus6 dbus-monitor: power if (.*[./])?{powered}
busctl: system.change starts (call|set-property|emit)\n
    unless Get|GetAll|Introspect|Ping|(List|Get)[A-Z]\w*
dbus-send qdbus qdbus6: system.change if .*\..* unless
    (.*\.)?(Get|GetAll|Introspect|Ping|(List|Get)[A-Z]\w*)
gdbus: system.change starts (call|emit)\n unless (.*\.)?(Get|GetAll|Introspect|Ping|(List|Get)[A-Z]\w*)
loginctl: power if {power}
loginctl: system.change starts (?!\Z|(list|show|[a-z]+-status)[\w-]*\n)
ipmitool: power args (.*\n)?power\n(off|reset|cycle|soft|diag)\n
rtcwake pm-suspend pm-hibernate pm-powersave s2ram s2disk: power unless --help|--version|-V
shutdown reboot halt poweroff: power unless --help|-c|--version
init telinit: power if [016sS]
useradd userdel usermod groupadd groupdel groupmod adduser deluser passwd chpasswd visudo vipw chsh chfn
    gpasswd
    iptables ip6tables nft firewall-cmd insmod rmmod modprobe setenforce update-alternatives ldconfig
    grub-install
    update-grub efibootmgr networksetup scutil csrutil spctl setcap kexec depmod ebtables arptables ethtool
    iwconfig tc brctl wg-quick openvpn dhclient sysrc semanage setsebool auditctl nvram pmset systemsetup
    dscl update-ca-certificates mkinitcpio: system.change
    args (?!((-l|-L|--list|list|show|status|-S|-a|--help|--version|-n|-nL|-v|-t)\n)+\Z)
nmcli: system.change starts
    (?!\Z|monitor\n|[a-z]+\n(\Z|(st?a?t?u?s?|sho?w?|list|permissions|connectivity|monitor)\n)
    |d[a-z]*\nwi?f?i?\n(\Z|li?s?t?\n))
ip: system.change starts
    (?!\Z|(monitor|help)\n|[a-z0-9]+\n(\Z|(sh?o?w?|li?s?t?|ls|l?st|ge?t?|help|identify|pids|monitor|dev)\n))
ip: system.change if -b(atch)?|-force
resolvectl systemd-resolve: system.change starts
    (dns|domain|default-route|llmnr|mdns|dnssec|dnsovertls|nta|revert|flush|reset|log-level)[\w-]*\n.
resolvectl: system.change starts (flush|reset)-
resolvconf: system.change if -[adu].*
arp: system.change if -[a-zA-Z]*[sdf]|--(set|delete|file)(=.*)?
hostnamectl: system.change starts (?!\Z|(status|show)\n|[a-z-]+\n\Z)
rfkill: system.change starts (block|unblock|toggle)\n
flashrom fwupdmgr fwupdtool mokutil: system.change starts (?!\Z|(get|list|show|status|version)[\w-]*\n)
wall write talk: system.change if .+ unless --version|--help
ip ifconfig route sysctl hostname timedatectl ufw defaults localectl date:
    system.change
    if set|add|del|delete|flush|down|up|-w|change|replace|-s|--set(=.*)?|enable|disable|allow|deny|reset
    |set-\w+|write|-p|kill-session|terminate-user|-f|connection|reload|[a-z]\w*\.[\w.]+=.*
ip: run.code starts netns\nexec\n
crontab at batch atrm systemd-run schtasks anacron incrontab: write.schedule unless -l|-V|/query
history: history.erase if <cdw>
unset: history.erase if HIST\w+
set: history.erase args (.*\n)?\+o\nhistory\n
journalctl: history.erase if --(vacuum|rotate|flush).*
dmesg: history.erase if -C|-c|--clear
last lastb lastlog: history.erase if -C|-c|--clear
wevtutil logrotate: history.erase
gpg gpg2: read.secret if .*--export-secret.*
gpg gpg2 age rage: read.secret if -[a-z]*d[a-z]*|--decrypt.*
ansible-vault git-crypt: read.secret starts (view|decrypt|edit|unlock|export-key)\n
gpg gpg2: write.secret if --(delete-secret|import|delete-key|edit-key).*
security: read.secret if (find|dump|export|delete|unlock).*
secret-tool kwallet-query bw op vault pass lpass keyring gopass age-keygen sops chamber doppler infisical
    keepassxc-cli: read.secret if .+ unless --version|--help|status
aws: read.secret starts configure\nget\n
fuser: kill.many if <k>|--kill
xkill: kill.many
reg regedit vssadmin bcdedit wmic rundll32 regsvr32 mshta certutil bitsadmin cscript wscript netsh
    cipher fsutil wbadmin msiexec dism sfc forfiles psexec at.exe: system.change if .+
net: system.change starts (user|localgroup|share|use|stop|start|accounts|group)\n
"""

PROCESSES = r"""
strace ltrace perf py-spy rbspy bpftrace dtrace frida: process.control if -[A-Za-z]*p\d*|--(attach|pid).*
gcore reptyr jattach jmap jstack nsenter criu bpftrace frida dtruss sysdig: process.control if .+
strace ltrace: run.unknown if -o[|!].*|[|!].*
# An agent's processes are known by a limit of theirs (`-m`, RSS).
ulimit: process.control args [^\n]*\n. if -[a-zA-Z]*m\w*
# A dump holds what a program had in memory.
ulimit: process.control args (.*\n)?-[a-zA-Z]*c\n(?!0\n).
renice: process.control if .+ unless --help|--version
ionice taskset chrt choom schedtool: process.control if -[a-z]*p\d*|--(pid|pgid|uid)(=.*)?
prlimit: process.control if -m.+|--rs?s?=.+
prlimit: process.control args (.*\n)?--?p if -[^po-].+|--(?!pid|out)\w+=.+
"""

RUNS_PROGRAMS = r"""
vim vi nvim ex emacs ed less more most man: run.unknown if \+?:?!.*|.*(:!|system\(|:r!|call\s+system).*
bwrap proot nsjail schedtool chpst softlimit start-stop-daemon daemonize xterm rr at-spi gnome-terminal
    konsole
    alacritty kitty wezterm cargo-script osqueryi nsenter runc crun qemu-system-x86_64 ltrace-run
    unshare: run.unknown unless --version|--help|-V
tar bsdtar unzip cpio pax: run.unknown
    if (--to-command|--checkpoint-action|--use-compress-program|-I|--rsh-command|--info-script
    |--new-volume-script|-F).*
man: run.unknown if -[PHC].*|--(pager|html|config-file|preprocessor).*
zip: run.unknown if -TT.*|--unzip-command.*
sort: run.unknown if --co[a-z-]*program(=.*)?
split csplit: run.unknown if --filter(=.*)?
rg ugrep: run.unknown if --(pre|hostname-bin|pager|filter)(=.*)?
fd fdfind: run.unknown if --exec-batch(=.*)?
gcc g++ cc c++ clang clang++: run.unknown if
    -wrapper|-B.*|-fplugin=.*|-specs=.*|-Xclang|-load|-fpass-plugin=.*
ld gold lld: run.unknown if -plugin|--plugin.*
rustc: run.unknown if -C.*linker=.*|-Z.*
cargo: run.code if --config(=.*)?
cmake: run.code if -P.*|-E
cmake: run.unknown if -C|-D?CMAKE_(C|CXX)_COMPILER_LAUNCHER=.*
ninja samu: run.unknown args (.*\n)?-f\n?([/~.]|\S*/)
make gmake bmake: run.unknown if (SHELL=|\.SHELLFLAGS=|MAKEFLAGS=|--eval|-E).*
make gmake bmake: run.unknown args (.*\n)?(-f\n?|--file[=\n]|--makefile[=\n])(-|/|~|\.\.|.*/\.\.)
just task mage rake gulp grunt invoke fab nox doit waf scons bazel buck meson: run.unknown
    if -f[/~.].*|--(justfile|taskfile|rakefile|file|collection)(=.*)?
make just task npm yarn pnpm bun rake gradle gradlew mvn invoke fab nx turbo lerna rails ant sbt mix grunt
    gulp
    artisan bundle: cluster if {destroys} unless -n|--dry-run|--help|-T|-P
mvn gradle gradlew: cluster if deploy|publish\w*|upload\w*|release:\w+
rails rake artisan mix sequelize knex prisma typeorm drizzle-kit alembic flyway liquibase dbmate goose
    migrate diesel sqlx supabase hasura: sql.drop if
    .*(drop|reset|fresh|flush|clean|wipe|truncate|rollback|undo
    |downgrade|down|revert|purge|refresh|delete).*
prisma: sql.drop if --(force-reset|accept-data-loss)
python-manage manage.py: sql.drop if flush|reset_db|sqlflush|dropdb|delete\w*|clear\w*
pandoc: run.unknown if -[FL].*|--(filter|lua-filter|pdf-engine|extract-media)(=.*)?
pytest: run.unknown if -p[/~.].*|-c[/~].*|--(rootdir|confcutdir|import-mode|basetemp)=?[/~].*
node nodejs bun tsx ts-node: run.code if
    (-r|--require|--import|--loader|--experimental-loader|--preload)(=.*)?
ruby perl: run.code if -[rM]\S*(socket|open-uri|net|fileutils|open3|pty|File|IO|LWP|Socket|un)\S*
openssl: run.unknown starts (engine|provider)\n
openssl: run.unknown if -(engine|provider|provider-path)
openssl: net.socket starts (s_server|s_time|ocsp)\n
tcpdump dumpcap tshark: run.unknown if -z
git-upload-pack git-shell: run.unknown
enable: run.code if -[a-z]*f.*
hash: run.unknown if -[a-z]*p.*
bind: run.unknown if -[a-z]*[xf].*
fc: run.unknown unless -[a-z]*l[a-z]*
tmux screen dtach abduco zellij byobu: run.unknown
    unless -?-?(ls|list.*|has.*|kill.*|capture.*|version)|-V|-v|--help
expect autoexpect empty: run.code unless -v|-version
direnv: write.startup starts (allow|permit|grant|edit|exec)\n
ssh: run.unknown if -o\S*(Command|Proxy|Include|Forward|KnownHostsCommand)\S*.*|(ProxyCommand
    |LocalCommand)[= ].*
ssh-keygen ssh-add: run.unknown if -D.*|-s
scp rsync sftp ftp tftp: run.unknown
    if -e.*|--rsh|-S.*|-D|(-oProxyCommand|ProxyCommand|--rsync-path|--rsh=|-o\S*Command).*
apt apt-get dpkg: run.unknown if -o\S*(Pre-Invoke|Post-Invoke|Command)\S*|-o
mysql mariadb: run.unknown if --(pager|tee|init-command|plugin-dir)(=.*)?
psql: sql.unknown if -f.*|--file(=.*)?
psql: run.unknown if -[vL].*!.*|--set=.*!.*
redis-cli: sql.drop starts (?i:del|unlink|rename|getdel)\n
redis-cli: run.code if --(eval|rdb|pipe|functions-rdb|cluster).*
redis-cli: system.change starts
    (?i:config\nset|debug|module|shutdown|slaveof|replicaof|script|eval|save|bgsave
    |acl|cluster|migrate|failover)\b
nsupdate ldapmodify ldapdelete ldapadd snmpset: system.change
ghostscript gs: run.unknown unless -dSAFER|--version|-v|--help|-h
latex pdflatex xelatex lualatex tex: run.unknown if --?(shell-escape|enable-write18).*
convert magick ffmpeg ffprobe: net.upload if
    (tcp|udp|rtmp|rtp|http|https|ftp|sftp|tls|srt)://.*|(msl|ephemeral|text):.*
docker podman: container if --(secret|ssh)(=.*)?
"""

NETWORK = r"""
mail mailx sendmail mutt swaks msmtp nail s-nail exim postdrop uuencode: net.upload unless --version|-V
croc wormhole magic-wormhole ffsend transfer.sh tailscale onionshare rclone restic borg duplicity duplicati
    syncthing gdrive dropbox dbxcli mega-put megaput lftp ncftpput smbclient curlftpfs sshfs
    davfs2 cadaver gupload telegram-send slackcat pastebinit gist ix wgetpaste 0x0 termbin kermit: net.upload
    unless --version|--help|version|status|ls|lsd|lsl|list|about|config|check|size|tree
nmap masscan zmap tcpdump tshark dumpcap ngrok cloudflared bore chisel frpc frps localtunnel lt serveo
    inlets pagekite rathole zrok gost iodine dnscat2 hping3 arpspoof ettercap bettercap hydra john hashcat
    sqlmap
    msfconsole msfvenom nikto aircrack-ng responder mitmproxy socat telnet rlogin rsh: net.socket
    unless --version|-V|--help|version
xdg-open open kde-open kde-open5 gnome-open exo-open wslview sensible-browser x-www-browser www-browser
    python-webbrowser: net.upload if www\..*|mailto:.*|.*{unknown}.*
    |(?!https?://(localhost|127\.0\.0\.1|\[::1\])([:/].*)?\Z)[a-z][a-z0-9+.-]*://.*
# Name look-ups and pings carry data out in the names.
dig nslookup host ping ping6 drill kdig whois getent resolvectl traceroute curl-dns: net.upload if
    .*{unknown}.*
ping: net.upload if -p
autossh mosh dbclient plink pdsh tsh et ssh-keyscan-all: run.remote unless --version|-V
ssh-copy-id: write.ssh
ssh-add: write.ssh args (?!-[lL]\n).
ssh-keyscan: net.socket if .*{unknown}.*
nc ncat netcat: net.socket unless -[A-Za-z]*z[A-Za-z]*
nc ncat netcat: net.socket if -[A-Za-z]*[eclU][A-Za-z]*
sftp ftp tftp: net.upload starts .
scp rsync: net.upload
    starts (.*\n)?((([\w.-]+@)?[\w.-]+::?[^\\\n]|rsync://|\w[\w.-]+:)[^\n]*\n|[^\n]*:\n)\Z
httpd lighttpd caddy nginx apache2 sshd vsftpd smbd x11vnc vncserver ttyd gotty shellinabox code-server
    python-smtpd python-pyftpdlib darkhttpd miniserve webfsd thttpd mini_httpd filebrowser: net.listen
    unless -v|-V|-t|--version|version|--help|validate|fmt|127\.0\.0\.1.*|localhost.*
http-server serve live-server local-web-server simplehttpserver: net.listen
    unless -v|--version|--help|127\.0\.0\.1.*|localhost.*|tcp://(localhost|127\.).*
vite next nuxt ng astro webpack-dev-server jekyll hugo: net.listen args (.*\n)?--host\n(\Z|-)
mongod redis-server postgres mysqld: net.listen if --(bind_ip_all|protected-mode)|--bind_ip=\*|no
"""

ELSEWHERE = r"""
docker podman nerdctl: container
    starts (?!((compose|container|image|volume|network|system)\n)?({calmcontainer}))
docker-compose lxc ctr lxd incus machinectl virsh vboxmanage VBoxManage multipass qm pct: container starts
    (?!{calmcontainer})
kubectl oc: cluster starts (?!{calmcluster})
kubectl oc: read.secret starts (get|describe)\nsecrets?\b|config\nview\n
kubectl oc helm: run.unknown if --exec-\S*|--post-renderer(=.*)?
helm: cluster starts (?!{calmchart})
terraform tofu terragrunt pulumi cdktf: cluster starts (?!{calmplan})
ansible ansible-playbook ansible-pull ansible-console ansible-galaxy salt salt-ssh puppet chef-client knife
    fabric mussh pssh parallel-ssh clusterssh dsh capistrano cap: cluster
    unless --version|--check|--syntax-check|--list-hosts|--list-tasks|list
aws gcloud az gsutil s3cmd s4cmd s5cmd b2 mc doctl flyctl fly heroku vercel netlify firebase serverless sls
    wrangler
    eas railway render cdk sam amplify copilot eb linode-cli hcloud oci ibmcloud scw cf openstack eksctl kops
    vagrant packer nomad consul argocd flux istioctl rclone azcopy exo civo vultr-cli aliyun tccli
    shopify stripe twilio supabase planetscale pscale turso neonctl atlas sentry-cli surge now dokku bosh juju
    cloud-init etcdctl influx kafka-topics kafka-topics.sh rabbitmqctl zkcli nats minikube kind k3d k3s
    sfdx circleci travis databricks snowsql bq dbt-cloud: cluster starts (?!{calmcloud})
aws gcloud az gsutil doctl flyctl fly heroku vercel netlify firebase serverless wrangler railway oci
    ibmcloud scw
    openstack eksctl vagrant argocd flux minikube kind databricks: cluster starts {changing}
packer: cluster starts build\n
vercel netlify: cluster if --prod.*
aws gcloud az vault heroku fly flyctl doctl firebase: read.secret starts {secretverbs}
gh glab hub: cluster starts (?!({calmhub})|(api|search|config\n(get|list))\n)
gh glab: read.secret starts auth\ntoken\n
gh glab: cluster starts api\n if -X.*|--method.*|-f|-F|--field.*|--raw-field.*|--input.*
gh glab: read.secret starts secret\n
mysqldump pg_dump mongodump pg_dumpall: read.secret if -h.*|--host.*
pg_restore mongorestore mysqlimport pg_basebackup pg_resetwal initdb dropuser: sql.drop unless
    --list|-l|--version
nodetool cassandra-stress: sql.drop if (drain|decommission|removenode|flush|clearsnapshot|truncate)\w*
"""

ALL = (FILES, MACHINE, PROCESSES, RUNS_PROGRAMS, NETWORK, ELSEWHERE)

VERBS = (
    "delete destroy deploy purge drop wipe terminate publish upload send push uninstall nuke erase shred"
    " undeploy share exfil transfer sync-up implode self-destruct truncate flush exec-shell reverse-shell"
    " unlink"
)
"""What a program that nobody knows here is not told to do without a question."""
FETCHED_TOOLS = (
    "tsc eslint jest prettier vitest playwright webpack vite next nuxt tailwindcss mocha nyc c8 ts-node"
    " tsx rollup"
    " esbuild turbo nx lerna lint-staged stylelint typedoc cypress tsup swc babel knip depcheck madge ava"
    " tap karma"
    " storybook biome oxlint vue-tsc svelte-check astro ng react-scripts markdownlint cspell husky commitlint"
    " npm-check-updates ncu license-checker size-limit publint type-coverage jscpd nodemon concurrently"
    " rimraf"
    " cross-env http-server serve prisma drizzle-kit sequelize typeorm knex expo metro jest-cli"
    " @biomejs/biome"
    " @playwright/test sass postcss autoprefixer gulp grunt parcel microbundle api-extractor changeset attw"
    " ruff black mypy pytest isort flake8 pre-commit pyright pylint tox nox bandit codespell djlint"
    " sqlfluff yapf"
    " build twine hatch pip-audit deptry vulture coverage mkdocs sphinx-build cookiecutter basedpyright ty"
    " markdownlint-cli markdownlint-cli2 dprint json5 yaml-lint htmlhint stryker typescript envinfo"
)
"""Developers' tools that npx, uvx and their like run; usually the project has them already."""
