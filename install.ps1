# Installs Hermes Gateway on Windows. Hermes needs Linux, so it runs in WSL, Windows' own Linux:
#
#   powershell -ExecutionPolicy Bypass -File install.ps1 [-From ADDRESS] [-Yes]
#
# Nobody has run this on Windows yet.
param([string]$From = $env:HERMES_REPOSITORY, [switch]$Yes)
$ErrorActionPreference = 'Stop'

function Stop-Here([string]$Message) { [Console]::Error.WriteLine($Message); exit 1 }

if (-not (Get-Command wsl.exe -ErrorAction SilentlyContinue)) {
    Stop-Here 'Windows'' Linux (WSL) is missing. Install it as administrator: wsl --install. Restart, then run this again.'
}
wsl.exe --status *> $null
if ($LASTEXITCODE -ne 0) {
    Stop-Here 'WSL has no Linux yet. Install one: wsl --install -d Debian. Start it once, then run this again.'
}
$script = Join-Path $PSScriptRoot 'install.sh'
if (-not (Test-Path $script)) { Stop-Here "install.sh must stand beside this file: $script" }
# wsl.exe hands words on as they are; the path becomes one of Linux there.
$linux = (wsl.exe wslpath -a ($script -replace '\\', '/')).Trim()
$words = @('sh', $linux)
if ($Yes) { $words += '--yes' }
if ($From) { $words += @('--from', $From) }
wsl.exe @words
exit $LASTEXITCODE
